"""Trials on a Ray cluster: an existing one (`address`), or one started on this machine.

Ray decides where a trial runs. Records come back to this process, which alone writes them. A trial
whose process or node dies, or that hangs, runs again elsewhere; after several times it has failed.
If the cluster is gone (its head, the node of this process, or all nodes that could run a trial)
the study stops, and no trial counts as failed. Nodes that see the study's folder share work; the
others keep their own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from deadhead.errors import MissingExtra
from deadhead.numerics import THREADS, threads
from deadhead.studies.store.folder import ClusterLost, GpuLost, StudyError, prepare
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial, digest
from deadhead.version import versions

from . import watchdog
from .jobs import EVERY, NOW, Workload, answer, answered
from .ray_health import AGAIN, Board, Health, signs_of_life
from .watchdog import Hang

RETRIES = 3  # of a trial whose node or process died
OPEN = (
    "the Ray cluster asks for no token: whoever reaches its ports can run code on it. "
    "Start it with RAY_AUTH_MODE=token."
)
ENVIRONMENT = ("DEADHEAD_DATA", THREADS, "HF_HUB_OFFLINE", "HF_HOME", "TOKENIZERS_PARALLELISM")
_gpu_lost: list[GpuLost] = []  # in a process of the cluster: why it must end


def run(load: Workload) -> None:
    """Keep the cluster busy until nothing is left, or a stop is requested."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "the executor `ray`") from None
    options = dict(load.options or {})
    cpus = threads()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, options.get("address"), load.workers, cpus)
        if os.environ.get("RAY_AUTH_MODE") != "token":  # Ray sets it if it has a token
            load.control.report(OPEN)
    try:
        # a trial sees only the GPUs it requests, so by default each trial gets one
        gpus = float(options.get("gpus", 1 if ray.cluster_resources().get("GPU") else 0))
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, max_calls=0)(remote_trial)
        _Cluster(ray, load, task, cpus, gpus).run()
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int, cpus: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": workers * cpus, "include_dashboard": False}
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        hint = "start one with: ray start --head, or leave out --address"
        raise StudyError(f"expected a Ray cluster at {address}, got: {problem}", hint) from None


class _Cluster:
    """The trials that run on the cluster."""

    def __init__(self, ray: Any, load: Workload, task: Any, cpus: int, gpus: float):
        self.ray, self.load, self.task = ray, load, task
        self.running: dict[Any, Trial] = {}
        self.gpu_losses = 0  # processes in a row that lost the GPU
        self.hangs: dict[str, Hang] = {}  # trials that were ended, and why
        self.health = Health(ray, cpus, gpus)
        self.board = Board(ray)
        load.control.watchdog.starts = float("inf")  # a trial may wait until the cluster has room

    def run(self) -> None:
        while True:
            self.health.check()
            if self.load.control.level() >= NOW:
                for reference in self.running:
                    self.ray.cancel(reference, force=True)
                raise KeyboardInterrupt
            self._feed()
            if not self.running:  # then no trial waits for another either
                break
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=EVERY)
            for reference in ready:
                self._take(reference, self.running.pop(reference))
            self._watch()

    def _feed(self) -> None:
        while len(self.running) < max(1, self.health.slots):
            trial = self.load.next_trial()
            if trial is None:
                return
            job = self.task.remote(
                dict(trial.content),
                keep=self.load.jobs.keys(trial),
                folder=str(self.load.folder.resolve()),
                work=self.load.work,
                path=sys.path,
                environ={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                board=self.board.actor,
                beat=watchdog.BEAT,
            )
            self.running[job] = trial

    def _watch(self) -> None:
        """Read signs of life, and end the processes of trials that hang."""
        trials = {trial.id: trial for trial in self.running.values()}
        for name, note in self.board.news():
            if name in trials:
                self.load.control.watchdog.beat(name)
                self.load.control.note(trials[name], note)
        for hang in self.load.control.watchdog.hanging():
            if hang.trial in trials and hang.trial not in self.hangs:
                self.hangs[hang.trial] = hang
                self.board.end(hang.trial)

    def _take(self, reference: Any, trial: Trial) -> None:
        """Read the answer of a trial, or find out what became of it."""
        errors = self.ray.exceptions
        names = ("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "ObjectLostError")
        died = tuple(getattr(errors, name) for name in names)
        try:
            result = answered(json.loads(self.ray.get(reference)))
        except died as problem:
            self._died(trial, problem)
        except errors.RayTaskError as problem:
            self.load.end(
                Record(trial=trial, state="failed", versions=versions(), error=str(problem))
            )
        except errors.RayError as problem:  # such as LocalRayletDiedError
            message = f"the Ray cluster does not answer any more: {_first_line(problem)}"
            raise ClusterLost(message, AGAIN) from None
        else:
            if isinstance(result, Record):
                self.gpu_losses = 0
                self.load.end(result)
            elif isinstance(result, GpuLost):
                self.gpu_losses += 1
                if self.gpu_losses > RETRIES * max(1, self.health.slots):
                    self.load.stop(result)
                self._died(trial, result)
            else:
                self.load.put_back(trial)
                self.load.stop(result)

    def _died(self, trial: Trial, problem: Exception) -> None:
        self.health.check(now=True)  # if the cluster is gone, it is not the trial's fault
        hang = self.hangs.pop(trial.id, None)
        reason = hang.reason if hang else f"its node or process died: {_first_line(problem)}"
        error = f"The trial was ended several times, at last because {reason}."
        self.load.retry(trial, 2 if hang else RETRIES + 1, error, reason)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def remote_trial(
    content: dict[str, Any],
    keep: list[str],
    folder: str,
    work: str,
    path: list[str],
    environ: dict[str, str],
    board: Any,
    beat: float,
) -> str:
    """Run one trial on whatever node this is; the answer is JSON."""
    if _gpu_lost:
        os._exit(1)  # Ray starts a new process, which may reach the GPU
    os.environ.update(environ)
    sys.path += [entry for entry in path if entry not in sys.path]
    home = Path(folder)
    if not (home / "study.json").is_file():  # this node does not see the study's folder
        home = prepare(Path(tempfile.gettempdir()) / f"deadhead-{os.getuid()}-{digest(folder)}")
    trial = Trial(content)
    with signs_of_life(board, trial.id, beat) as tell:
        message = answer(work, trial, home, keep, tell)
    if isinstance(problem := answered(message), GpuLost):
        _gpu_lost.append(problem)
    return json.dumps(message)
