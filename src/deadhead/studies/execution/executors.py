"""The executors: `serial` in this process, `local` in worker processes, `ray` on a cluster.

All have one signature and do the same: take trials from the workload, have the work done, and pass
each record to `finish`, which alone writes it. So the same trials give the same records.
"""

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name

from deadhead.registry import Registry
from deadhead.studies.trial import Trial

from .jobs import NOW, Workload


def serial(load: Workload) -> None:
    """One trial after the other, in this process."""
    work = resolve_name(load.work)
    while (trial := load.next_trial()) is not None:
        keep, tell = load.jobs.keys(trial), partial(_tell, load, trial)
        load.end(work(trial, load.folder, keep, tell))


def _tell(load: Workload, trial: Trial, text: str) -> None:
    load.control.note(trial, text)
    if load.control.level() >= NOW:
        raise KeyboardInterrupt


EXECUTORS: Registry[Callable[[Workload], None]] = Registry(
    "executor",
    "deadhead.studies.execution",
    {"local": "processes:run", "serial": "executors:serial", "ray": "ray_cluster:run"},
)
