"""Trials on a Ray cluster: one that is there (`address`), or one started on this machine.

Ray decides where a trial runs, and runs it again when a node dies. Records come back to this process,
which alone writes them. Shared work is shared by nodes that see the study's folder; on others each
node keeps its own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MissingExtra
from ..numerics import THREADS, threads
from .folder import DiskFull, GpuLost, StudyError, prepare
from .jobs import EVERY, GO, NOW, Order, function
from .records import Record
from .run import versions
from .trial import Trial, digest

RETRIES = 3  # of a trial whose node or process died


def run(order: Order) -> None:
    """Keep the cluster busy until nothing is left, or a stop is asked for."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "the executor `ray`") from None
    options = dict(order.options or {})
    cpus = float(options.get("cpus", threads()))
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, options.get("address"), order.workers, cpus)
    try:
        # a trial that asks for no GPU sees none, so where there are some each trial gets one unless told otherwise
        gpus = float(options.get("gpus", 1 if ray.cluster_resources().get("GPU") else 0))
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, max_calls=0)(remote_trial)
        _Cluster(ray, order, task, cpus, gpus).run()
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int, cpus: float) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is None:
            ray.init(address="local", num_cpus=max(1, round(workers * cpus)), include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        raise StudyError(
            f"no Ray cluster could be reached at {address}: {problem}", "start one with: ray start --head, or leave out --address"
        ) from None


class _Cluster:
    """The trials under way on the cluster."""

    def __init__(self, ray: Any, order: Order, task: Any, cpus: float, gpus: float):
        self.ray, self.order, self.task, self.cpus, self.gpus = ray, order, task, cpus, gpus
        self.running: dict[Any, Trial] = {}
        self.problem: StudyError | None = None

    def run(self) -> None:
        while True:
            level = self.order.control.level()
            if level >= NOW:
                for reference in self.running:
                    self.ray.cancel(reference, force=True)
                raise KeyboardInterrupt
            if level == GO and self.problem is None:
                self._feed()
            if not self.running:  # then nothing is waiting for another either
                break
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=EVERY)
            for reference in ready:
                self._take(reference, self.running.pop(reference))
        if self.problem is not None:
            raise self.problem

    def _feed(self) -> None:
        while len(self.running) < self._slots():
            trial = self.order.begun()
            if trial is None:
                return
            folder = str(self.order.folder.resolve())
            job = self.task.remote(dict(trial.content), self.order.jobs.keys(trial), folder, self.order.work, sys.path, _environment())
            self.running[job] = trial

    def _slots(self) -> int:
        """How many trials the cluster can run now; it may lose and win nodes."""
        there: Mapping[str, float] = self.ray.cluster_resources()
        by_gpu = [there.get("GPU", 0) / self.gpus] if self.gpus else []
        return max(1, int(min([there.get("CPU", 1) / self.cpus, *by_gpu])))

    def _take(self, reference: Any, trial: Trial) -> None:
        try:
            record = self._answer(reference, trial)
            if record is not None:
                self.order.ended(record)
        except StudyError as problem:
            self.problem = self.problem or problem

    def _answer(self, reference: Any, trial: Trial) -> Record | None:
        errors = self.ray.exceptions
        try:
            answer = json.loads(self.ray.get(reference))
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError) as problem:
            return Record(
                trial, "failed", versions=versions(), error=f"The node or process of this trial died, {RETRIES + 1} times: {problem}"
            )
        except errors.RayError as problem:
            return Record(trial, "failed", versions=versions(), error=str(problem))
        if "study" in answer:
            message, mend, full = answer["study"]
            self.order.jobs.back(trial)
            self.order.control.running.pop(trial.id, None)
            raise (DiskFull if full else StudyError)(message, mend)
        return Record.from_dict(answer["record"])


def _environment() -> dict[str, str]:
    """What a trial must know of our surroundings."""
    names = ("DEADHEAD_DATA", THREADS, "HF_HUB_OFFLINE", "HF_HOME", "TOKENIZERS_PARALLELISM")
    return {name: os.environ[name] for name in names if name in os.environ}


def remote_trial(content: dict[str, Any], keep: list[str], folder: str, work: str, path: list[str], environ: dict[str, str]) -> str:
    """Run one trial on whatever node this is; the answer is JSON."""
    os.environ.update(environ)
    sys.path += [entry for entry in path if entry not in sys.path]
    home = Path(folder)
    if not (home / "study.json").is_file():  # this node does not see the study's folder
        home = prepare(Path(tempfile.gettempdir()) / f"deadhead-{os.getuid()}-{digest(folder)}")
    try:
        record = function(work)(Trial(content), home, frozenset(keep), lambda text: None)
    except GpuLost:
        os._exit(1)  # Ray tries again in a new process
    except StudyError as problem:
        return json.dumps({"study": [problem.message, problem.mend, isinstance(problem, DiskFull)]})
    return json.dumps({"record": json.loads(record.to_json())})
