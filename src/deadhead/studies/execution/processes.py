"""Worker processes of this machine: started, fed, watched, and replaced when one dies.

A trial whose process dies (out of memory, kill -9, a GPU that gives up) or that hangs is tried once more in a
new process, then recorded as failed. Where no process reaches the GPU any more, or one after the other gives
no sign of life, it is not the trials: the study stops. The workers end with this process, whichever way it ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from deadhead.numerics import threads
from deadhead.studies.store.folder import DiskFull, GpuLost, StudyError
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial
from deadhead.version import versions

from . import watchdog
from .jobs import EVERY, GO, NOW, Order
from .watchdog import Hang

ATTEMPTS = 2
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Worker:
    """One process and the trial it has."""

    def __init__(self, order: Order, number: int):
        self.trial: Trial | None = None
        self.lost: StudyError | None = None  # why it ended, where that is not the trial's fault
        self.hang: Hang | None = None  # why it was ended
        self.log = _log(order.folder, number)
        command = [
            sys.executable,
            "-m",
            "deadhead.studies.execution.worker",
            str(order.folder),
            order.work,
            str(watchdog.BEAT),
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment(number, order.workers),
            start_new_session=True,  # Ctrl-C at the terminal goes to us alone
            bufsize=0,
        )
        self._rest = b""

    @property
    def channel(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def give(self, trial: Trial, keep: list[str]) -> None:
        self.trial = trial
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died; the end of its output will tell
            line = (
                json.dumps({"trial": dict(trial.content), "keep": keep}, ensure_ascii=False) + "\n"
            )
            self.process.stdin.write(line.encode())

    def messages(self) -> list[dict[str, Any]] | None:
        """What it has said since; None when it has ended."""
        got = os.read(self.channel.fileno(), 1 << 16)
        if not got:
            return None
        *lines, self._rest = (self._rest + got).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self, *, kill: bool) -> int:
        """End the process, and say how it ended."""
        if kill:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        if self.log is not subprocess.DEVNULL:
            os.close(self.log)
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Pool:
    """The workers of a study."""

    def __init__(self, order: Order):
        self.order = order
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()
        self.deaths: Counter[str] = Counter()
        self.lost = 0  # workers in a row that lost the GPU, or gave no sign of life
        self.problem: StudyError | None = None
        self.number = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.close(kill=worker.trial is not None)
        self.selector.close()

    def run(self) -> None:
        """Until nothing is left, or a stop is asked for, or the folder can take no more."""
        while True:
            level = self.order.control.level()
            if level >= NOW:
                raise KeyboardInterrupt
            if level == GO and self.problem is None:
                self._feed()
            busy = [worker for worker in self.workers if worker.trial is not None]
            if not busy:
                break
            for key, _ in self.selector.select(timeout=EVERY):
                self._hear(key.data)
            for hang in self.order.control.watchdog.hanging():
                self._end_hanging(hang)
        if self.problem is not None:
            raise self.problem

    def _feed(self) -> None:
        """Give every idle worker a trial, starting workers as long as there is work for them."""
        while True:
            idle = next((worker for worker in self.workers if worker.trial is None), None)
            if idle is None and len(self.workers) >= self.order.workers:
                return
            trial = self.order.begun()
            if trial is None:
                return
            if idle is not None:
                self.order.control.watchdog.beat(trial.id)  # it has started already
            (idle or self._start()).give(trial, self.order.jobs.keys(trial))

    def _start(self) -> Worker:
        worker = Worker(self.order, self.number % self.order.workers)
        self.number += 1
        self.workers.append(worker)
        self.selector.register(worker.channel, selectors.EVENT_READ, worker)
        return worker

    def _hear(self, worker: Worker) -> None:
        messages = worker.messages()
        if messages is None:
            self._bury(worker)
            return
        for message in messages:
            trial = worker.trial
            if trial is None:
                continue
            if "beat" in message:
                self.order.control.watchdog.beat(trial.id)
                continue
            if "note" in message:
                self.order.control.note(trial, message["note"])
                continue
            if "lost" in message:
                worker.lost = GpuLost(*message["lost"])
                continue
            worker.trial = None
            if "record" in message:
                self.lost = 0
                self._end(Record.from_dict(message["record"]))
            else:
                self._trouble(trial, message["study"])

    def _end(self, record: Record) -> None:
        try:
            self.order.ended(record)
        except (
            StudyError
        ) as problem:  # let the others finish: what they have done may still find room
            self.problem = self.problem or problem

    def _trouble(self, trial: Trial, told: list[Any]) -> None:
        """The study's folder, not the trial, is the matter: begin nothing more."""
        message, hint, full = told
        self.order.back(trial)
        self.problem = self.problem or (DiskFull if full else StudyError)(message, hint)

    def _end_hanging(self, hang: Hang) -> None:
        worker = next(
            (one for one in self.workers if one.trial is not None and one.trial.id == hang.trial),
            None,
        )
        if worker is None:
            return
        worker.hang = hang
        if hang.silent:
            worker.lost = StudyError(
                f"one process after the other gave no sign of life for {hang.limit:g} s. What was finished is kept.",
                f"see whether the disk of {self.order.folder} answers, and give the same command again",
            )
        worker.process.kill()
        self._bury(worker)

    def _bury(self, worker: Worker) -> None:
        self.selector.unregister(worker.channel)
        self.workers.remove(worker)
        code = worker.close(kill=False)
        trial = worker.trial
        if trial is None:
            return
        self.deaths[trial.id] += 1
        self.lost += worker.lost is not None
        if self.lost > ATTEMPTS * self.order.workers:  # then it is not the trials
            self.problem = self.problem or worker.lost
        again = self.deaths[trial.id] < ATTEMPTS or self.problem is not None
        if worker.hang is not None:
            then = "runs again in a new process" if again else "is recorded as failed"
            self.order.control.report(
                f"trial {trial.id} was ended: {worker.hang.reason}. It {then}."
            )
        if again:
            self.order.back(trial)
        else:
            self._end(Record(trial, "failed", versions=versions(), error=self._error(worker, code)))

    def _error(self, worker: Worker, code: int) -> str:
        if worker.hang is not None:
            hint = (
                ""
                if worker.hang.silent
                else " If it only takes long, give --trial-timeout off, or more seconds."
            )
            return f"The trial was ended {ATTEMPTS} times, the last time because {worker.hang.reason}.{hint}"
        return worker.lost.message if worker.lost else _how(code, self.order.folder)


def _how(code: int, folder: Path) -> str:
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    hint = (
        " Perhaps memory ran out: use fewer --workers or smaller batches."
        if code == -signal.SIGKILL
        else ""
    )
    return f"The process that ran this trial ended with {ended}, {ATTEMPTS} times.{hint} What it printed is in {folder.name}/logs."


def _log(folder: Path, number: int) -> int:
    """Where a worker prints to."""
    try:
        (folder / "logs").mkdir(exist_ok=True)
        if (folder / "logs").is_symlink():
            return subprocess.DEVNULL
        return os.open(
            folder / "logs" / f"worker-{number}.log",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW,
            0o666,
        )
    except OSError:
        return subprocess.DEVNULL


def environment(
    number: int, workers: int, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a worker: our import path, its threads, its GPU."""
    made = dict(os.environ if given is None else given)
    made["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    made.setdefault("TOKENIZERS_PARALLELISM", "false")
    for limit in LIMITS:
        made[limit] = str(threads())  # not a share of the cores, which would change numbers
    made.setdefault(
        "RAYON_NUM_THREADS", str(max(1, cores() // workers))
    )  # of tokenizers, which compute nothing
    cards = gpus(made)
    if len(cards) > 1:
        made["CUDA_VISIBLE_DEVICES"] = cards[number % len(cards)]
    return made


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environ: Mapping[str, str]) -> list[str]:
    """The GPUs that may be used, by the names CUDA_VISIBLE_DEVICES takes."""
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [card.strip() for card in named.split(",") if card.strip()]
    return [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
