"""What a study knows of the Ray cluster it runs on: whether it is still there, and how its trials fare."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.studies.store.folder import ClusterLost

EVERY = 1.0  # seconds between looks at the cluster
GONE = 60.0  # seconds without any node that could run a trial, where there was one before
HEAD = 5.0  # seconds without an answer from the head; after 60, Ray would end this process
AGAIN = "start the cluster again and give the same command: it continues where it stopped"


class Health:
    """Whether the cluster is there, and how many trials it can run. Raises ClusterLost when it is gone."""

    def __init__(
        self, ray: Any, cpus: float, gpus: float, clock: Callable[[], float] = time.monotonic
    ):
        self.ray, self.cpus, self.gpus, self.clock = ray, cpus, gpus, clock
        self.direct = (
            not ray.util.client.ray.is_connected()
        )  # an address ray://... reaches the cluster through a proxy
        context = ray.get_runtime_context()
        self.head: str = context.gcs_address if self.direct else ""
        self.node: str = context.get_node_id() if self.direct else ""
        self.slots = 0
        self._looked = float("-inf")
        self._there: float | None = None  # when the cluster could last run a trial

    def check(self, *, now: bool = False) -> None:
        """Look at the cluster every so often, or at once."""
        if not now and self.clock() - self._looked < EVERY:
            return
        self._looked = self.clock()
        if self.direct:
            self._check_head()
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        if self.direct and self.node not in alive:
            raise ClusterLost(
                "the Ray node that this command runs on is gone. What was finished is kept.", AGAIN
            )
        self.slots = self._slots(self.ray.cluster_resources())
        if self.slots:
            self._there = self._looked
        elif self._there is not None and self._looked - self._there > GONE:
            raise ClusterLost(
                "no node of the Ray cluster is left that could run a trial. What was finished is kept.",
                AGAIN,
            )

    def _check_head(self) -> None:
        """Connect to the head: asked for anything, a Ray without one ends the whole process after a minute."""
        host, _, port = self.head.rpartition(":")
        until = self.clock() + HEAD
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=HEAD).close()
                return
            except OSError as problem:
                if self.clock() > until:
                    raise ClusterLost(
                        f"the head of the Ray cluster at {self.head} does not answer ({problem}). What was finished is kept.",
                        AGAIN,
                    ) from None
                time.sleep(0.2)

    def _slots(self, there: Mapping[str, float]) -> int:
        """How many trials the cluster can run now; it may lose and win nodes."""
        by_gpu = [there.get("GPU", 0) / self.gpus] if self.gpus else []
        return int(min([there.get("CPU", 0) / self.cpus, *by_gpu]))


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
    """What trials on the cluster say of themselves, read without waiting."""

    def __init__(self, ray: Any):
        self.ray = ray
        self.actor = ray.remote(num_cpus=0, max_restarts=-1)(Signs).remote()
        self.places: dict[str, tuple[int, str]] = {}  # of a trial: its process and node
        self._asked: Any = None

    def news(self) -> Iterator[tuple[str, str]]:
        """The trials that gave a sign of life since, each with its last note."""
        if self._asked is not None:
            ready, _ = self.ray.wait([self._asked], timeout=0)
            if not ready:
                return
            asked, self._asked = self._asked, None
            try:
                signs = self.ray.get(asked)
            except self.ray.exceptions.RayError:
                return  # its node died; it starts again on another
            for trial, (note, process, node) in signs.items():
                self.places[trial] = (process, node)
                yield trial, note
        self._asked = self.actor.take.remote()

    def end(self, trial: str) -> None:
        """End the process of a trial, whatever it does; Ray then reports that it died."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if trial in self.places:
            process, node = self.places[trial]
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            self.ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(
                end_process
            ).remote(process)


def end_process(process: int) -> None:
    """Kill a process of Ray on this node; a stopped one cannot end itself."""
    try:
        if b"ray::" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
    except OSError:
        pass  # it has ended


@contextmanager
def signs_of_life(board: Any, trial: str, every: float) -> Iterator[Callable[[str], None]]:
    """On a node: tell the board every few seconds that the trial lives, and its last note."""
    import ray

    notes, over = [""], threading.Event()
    node = ray.get_runtime_context().get_node_id()

    def beat() -> None:
        while True:
            board.sign.remote(trial, notes[-1], os.getpid(), node)
            if over.wait(every):
                return

    def tell(text: str) -> None:
        notes[-1] = text

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()
