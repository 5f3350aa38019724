"""Who runs the trials: `serial` in this process, `local` in processes of this machine, `ray` on a cluster.

All have one signature and do the same: take trials from the jobs, have the work done, and hand each
record to `finish`, which is the only one to write it. So the same trials give the same records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from deadhead.studies.trial import Trial

from .jobs import NOW, Order, function


def serial(order: Order) -> None:
    """One after the other, in this process."""
    work = function(order.work)
    order.control.watchdog.silent = None  # this process cannot watch itself
    while (trial := order.begun()) is not None:
        keep = order.jobs.keys(trial)
        record = work(
            trial, order.folder, keep, lambda text, trial=trial: _heard(order, trial, text)
        )
        order.ended(record)


def _heard(order: Order, trial: Trial, text: str) -> None:
    order.control.note(trial, text)
    if order.control.level() >= NOW:
        raise KeyboardInterrupt


def local(order: Order) -> None:
    """In processes of this machine, `order.workers` at a time."""
    from .gpu_sharing import sharing
    from .processes import Pool, gpus

    with sharing(order.workers, len(gpus(os.environ))) as how, Pool(order) as pool:
        order.control.facts["sharing"] = how
        pool.run()


def ray(order: Order) -> None:
    """On a Ray cluster: an existing one, or one on this machine."""
    from .ray_cluster import run

    run(order)


EXECUTORS: Mapping[str, Callable[[Order], None]] = {"local": local, "serial": serial, "ray": ray}
