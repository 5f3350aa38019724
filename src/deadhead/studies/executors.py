"""Who runs the trials: `serial` in this process, `local` in processes of this machine, `ray` on a cluster.

All have one signature and do the same: take trials from the jobs, have the work done, and hand each
record to `finish`, which is the only one to write it. So the same trials give the same records.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .jobs import FINISH, GO, NOW, Control, Jobs
from .records import Record
from .trial import Trial

WORK = "deadhead.studies.run:run_trial"


@dataclass
class Order:
    """What an executor is given."""

    jobs: Jobs
    folder: Path
    finish: Callable[[Record], None]
    control: Control
    work: str = WORK  # module:function, called with (trial, folder, keep, tell)
    workers: int = 1
    options: Mapping[str, Any] | None = None  # of the executor itself

    def begun(self) -> Trial | None:
        """The next trial, noted as running; None if none can begin now or a stop was asked for."""
        trial = self.jobs.next() if self.control.level() == GO else None
        if trial is not None:
            self.control.begin(trial)
        return trial

    def ended(self, record: Record) -> None:
        self.jobs.finished(record.trial, done=record.state == "done")
        self.control.end(record)
        self.finish(record)


def function(work: str) -> Callable[..., Record]:
    """The function a text such as `package.module:name` names."""
    module, _, name = work.partition(":")
    found: Callable[..., Record] = getattr(importlib.import_module(module), name)
    return found


def serial(order: Order) -> None:
    """One after the other, in this process."""
    work = function(order.work)
    while (trial := order.begun()) is not None:
        keep = order.jobs.keys(trial)
        record = work(trial, order.folder, keep, lambda text, trial=trial: _heard(order, trial, text))
        order.ended(record)


def _heard(order: Order, trial: Trial, text: str) -> None:
    order.control.note(trial, text)
    if order.control.level() >= NOW:
        raise KeyboardInterrupt


def local(order: Order) -> None:
    """In processes of this machine, `order.workers` at a time."""
    from .processes import Pool, gpus
    from .sharing import sharing

    with sharing(order.workers, len(gpus(os.environ))) as how, Pool(order) as pool:
        order.control.facts["sharing"] = how
        pool.run()


def ray(order: Order) -> None:
    """On a Ray cluster: an existing one, or one on this machine."""
    from .on_ray import run

    run(order)


EXECUTORS: Mapping[str, Callable[[Order], None]] = {"local": local, "serial": serial, "ray": ray}

__all__ = ["EXECUTORS", "FINISH", "GO", "NOW", "WORK", "Order", "function", "local", "ray", "serial"]
