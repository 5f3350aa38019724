"""Whether the Ray cluster of a study still answers, and signs of life of the trials on it."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.studies.store.folder import ClusterLost

EVERY = 1.0  # seconds between checks of the cluster
GONE = 60.0  # seconds without any node that could run a trial, after there was one
HEAD = 5.0  # seconds without an answer from the head; after 60, Ray would end this process
KEPT = "Finished trials are kept."
AGAIN = "start the cluster again and run the same command: it continues where it stopped"


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
        if not now and time.monotonic() - self._checked < EVERY:
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


class Signs:
    """An actor of the cluster that collects the signs of life of all trials."""

    def __init__(self) -> None:
        self.signs: dict[str, tuple[str, int, str]] = {}

    def sign(self, trial: str, note: str, process: int, node: str) -> None:
        self.signs[trial] = (note, process, node)

    def take(self) -> dict[str, tuple[str, int, str]]:
        signs, self.signs = self.signs, {}
        return signs


class Board:
    """The signs of life of trials on the cluster, read without waiting."""

    def __init__(self, ray: Any):
        self.ray = ray
        self.actor = ray.remote(num_cpus=0, max_restarts=-1)(Signs).remote()
        self.places: dict[str, tuple[int, str]] = {}  # trial -> its process and node
        self._request: Any = None

    def news(self) -> Iterator[tuple[str, str]]:
        """The trials that gave a sign of life since the last call, each with its last note."""
        if self._request is not None:
            ready, _ = self.ray.wait([self._request], timeout=0)
            if not ready:
                return
            request, self._request = self._request, None
            try:
                signs = self.ray.get(request)
            except self.ray.exceptions.RayError:
                return  # its node died; it starts again on another
            for trial, (note, process, node) in signs.items():
                self.places[trial] = (process, node)
                yield trial, note
        self._request = self.actor.take.remote()

    def end(self, trial: str) -> None:
        """End the process of a trial, whatever it does; Ray then reports that it died."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if trial not in self.places:
            return
        process, node = self.places[trial]
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": place}
        self.ray.remote(**options)(end_process).remote(process)


def end_process(process: int) -> None:
    """Kill a process of Ray on this node; a stopped one cannot end itself."""
    try:
        if b"ray::" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
    except OSError:
        pass  # it has ended


@contextmanager
def signs_of_life(board: Any, trial: str, seconds: float) -> Iterator[Callable[[str], None]]:
    """On a node: send the board the trial's last note regularly; yields the function to set it."""
    import ray

    notes, over = [""], threading.Event()
    node = ray.get_runtime_context().get_node_id()

    def beat() -> None:
        while True:
            board.sign.remote(trial, notes[-1], os.getpid(), node)
            if over.wait(seconds):
                return

    def set_note(text: str) -> None:
        notes[-1] = text

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield set_note
    finally:
        over.set()
        thread.join()
