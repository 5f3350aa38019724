"""Trials on a Ray cluster: an existing one (`address`), or one started on this machine.

Ray decides where a trial runs. Records come back to this process, which alone writes them. A trial
whose process or node dies runs again elsewhere; after several times it has failed.
If the cluster is gone (its head, the node of this process, or all nodes that could run a trial)
the study stops, and no trial counts as failed. Nodes that see the study's folder share work; the
others keep their own.
"""

import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from deadhead.errors import optional
from deadhead.numerics import THREADS, threads
from deadhead.studies.store.folder import ClusterLost, StudyError, prepare
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial, digest
from deadhead.version import versions

from .jobs import EVERY, NOW, Workload, answer

RETRIES = 3  # of a trial whose node or process died
CHECK = 1.0  # seconds between checks of the cluster
GONE = 60.0  # seconds without any node that could run a trial, after there was one
HEAD = 5.0  # seconds without an answer from the head; after 60, Ray would end this process
KEPT = "Finished trials are kept."
AGAIN = "start the cluster again and run the same command: it continues where it stopped"
OPEN = (
    "the Ray cluster asks for no token: whoever reaches its ports can run code on it. "
    "Start it with RAY_AUTH_MODE=token."
)
ENVIRONMENT = ("DEADHEAD_DATA", THREADS, "HF_HUB_OFFLINE", "HF_HOME", "TOKENIZERS_PARALLELISM")


def run(load: Workload) -> None:
    """Keep the cluster busy until nothing is left, or a stop is requested."""
    ray = optional("ray", "ray", "the executor `ray`")
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


class Health:
    """Whether the cluster answers, and how many trials it can run; raises ClusterLost."""

    def __init__(self, ray: Any, cpus: int, gpus: float):
        self.ray, self.cpus, self.gpus = ray, cpus, gpus
        context = ray.get_runtime_context()
        self.head: str = context.gcs_address
        self.node: str = context.get_node_id()
        self.slots = 0
        self._checked = float("-inf")
        self._available: float | None = None  # when the cluster could last run a trial

    def check(self, *, now: bool = False) -> None:
        """Check the cluster from time to time, or at once."""
        if not now and time.monotonic() - self._checked < CHECK:
            return
        self._checked = time.monotonic()
        self._check_head()
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        if self.node not in alive:
            raise ClusterLost(f"the Ray node that this command runs on is gone. {KEPT}", AGAIN)
        resources = self.ray.cluster_resources()  # nodes may come and go
        by_gpu = [resources.get("GPU", 0) / self.gpus] if self.gpus else []
        self.slots = int(min([resources.get("CPU", 0) / self.cpus, *by_gpu]))
        if self.slots:
            self._available = self._checked
        elif self._available is not None and self._checked - self._available > GONE:
            message = "no node of the Ray cluster is left that could run a trial."
            raise ClusterLost(f"{message} {KEPT}", AGAIN)

    def _check_head(self) -> None:
        """Connect to the head: without one, any call of Ray ends this process after a minute."""
        host, _, port = self.head.rpartition(":")
        until = time.monotonic() + HEAD
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=HEAD).close()
                return
            except OSError as problem:
                if time.monotonic() > until:
                    head = f"the head of the Ray cluster at {self.head}"
                    message = f"{head} does not answer ({problem}). {KEPT}"
                    raise ClusterLost(message, AGAIN) from None
                time.sleep(0.2)


class _Cluster:
    """The trials that run on the cluster."""

    def __init__(self, ray: Any, load: Workload, task: Any, cpus: int, gpus: float):
        self.ray, self.load, self.task = ray, load, task
        self.running: dict[Any, Trial] = {}
        self.health = Health(ray, cpus, gpus)

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
            )
            self.running[job] = trial

    def _take(self, reference: Any, trial: Trial) -> None:
        """Read the answer of a trial, or find out what became of it."""
        errors = self.ray.exceptions
        try:
            result = json.loads(self.ray.get(reference))
        except (
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.ObjectLostError,
        ) as problem:
            self.health.check(now=True)  # if the cluster is gone, it is not the trial's fault
            reason = f"its node or process died: {_first_line(problem)}"
            error = f"The trial was ended several times, at last because {reason}."
            self.load.retry(trial, RETRIES + 1, error, reason)
        except errors.RayTaskError as problem:
            self.load.end(
                Record(trial=trial, state="failed", versions=versions(), error=str(problem))
            )
        except errors.RayError as problem:  # such as LocalRayletDiedError
            message = f"the Ray cluster does not answer any more: {_first_line(problem)}"
            raise ClusterLost(message, AGAIN) from None
        else:
            self.load.take(trial, result)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def remote_trial(
    content: dict[str, Any],
    keep: list[str],
    folder: str,
    work: str,
    path: list[str],
    environ: dict[str, str],
) -> str:
    """Run one trial on whatever node this is; the answer is JSON."""
    os.environ.update(environ)
    sys.path += [entry for entry in path if entry not in sys.path]
    home = Path(folder)
    if not (home / "study.json").is_file():  # this node does not see the study's folder
        home = prepare(Path(tempfile.gettempdir()) / f"deadhead-{os.getuid()}-{digest(folder)}")
    return json.dumps(answer(work, Trial(content), home, keep, lambda text: None))
