"""Worker processes of this machine: started, given trials, watched, and replaced when one dies.

A trial whose process dies (out of memory, kill -9, a lost GPU) or that takes too long is tried once
more in a new process, then recorded as failed. A process gives a sign of life every few seconds,
whatever it computes; one that was stopped, or waits for a disk that does not answer, gives none. If
one process after the other gives none, the trials are not to blame: the study stops. The workers
end with this process, however it ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from deadhead.numerics import threads
from deadhead.studies.store.folder import StudyError
from deadhead.studies.trial import Trial

from .jobs import EVERY, NOW, Workload

ATTEMPTS = 2
BEAT = 5.0  # seconds between two signs of life
SILENT = 180.0  # seconds without one
STARTS = 60.0  # seconds that a process may take until its first
PAUSE = 10.0  # seconds between two checks: more means that this process was stopped itself
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Worker:
    """A process and its trial."""

    def __init__(self, load: Workload, number: int):
        self.trial: Trial | None = None
        self.heard = time.monotonic() + STARTS  # when it last gave a sign of life
        self.begun: float | None = None  # when its trial began
        self.reason = ""  # why it was ended
        self.silent = False  # it was ended since it gave no sign of life: not the trial's fault
        self.log = _log(load.folder, number)
        module, beat = "deadhead.studies.execution.worker", str(BEAT)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(load.folder), load.work, beat],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment(number, load.workers),
            start_new_session=True,  # Ctrl-C at the terminal reaches this process alone
            bufsize=0,
        )
        self.jobs: Any = self.process.stdin
        self.answers: Any = self.process.stdout
        self._rest = b""

    def give(self, trial: Trial, keep: list[str]) -> None:
        self.trial, self.begun = trial, None
        self.heard = max(self.heard, time.monotonic())
        job = json.dumps({"trial": dict(trial.content), "keep": keep}, ensure_ascii=False)
        with suppress(BrokenPipeError):  # it has died, which the end of its output will show
            self.jobs.write(f"{job}\n".encode())

    def messages(self) -> list[dict[str, Any]] | None:
        """Its messages since the last call; None when it has ended."""
        data = os.read(self.answers.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def beat(self) -> None:
        """Note a sign of life; from the first one on the time of its trial counts."""
        self.heard = time.monotonic()
        self.begun = self.begun or self.heard

    def close(self, *, kill: bool) -> int:
        """End the process, and return its exit code."""
        if kill:
            self.process.kill()
        for pipe in (self.jobs, self.answers):
            with suppress(OSError):
                pipe.close()
        if self.log is not subprocess.DEVNULL:
            os.close(self.log)
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def run(load: Workload) -> None:
    """Run the trials in processes of this machine, `load.workers` at a time."""
    with closing(Pool(load)) as pool:
        pool.run()


class Pool:
    """The workers of a study."""

    def __init__(self, load: Workload):
        self.load = load
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()
        self.losses = 0  # workers in a row that gave no sign of life
        self.checked = time.monotonic()
        self.number = 0

    def close(self) -> None:
        for worker in self.workers:
            worker.close(kill=worker.trial is not None)
        self.selector.close()

    def run(self) -> None:
        """Until nothing is left, or a stop is requested, or the folder cannot be written."""
        while True:
            if self.load.control.level() >= NOW:
                raise KeyboardInterrupt
            self._feed()
            if not any(worker.trial is not None for worker in self.workers):
                break
            for key, _ in self.selector.select(timeout=EVERY):
                self._read(key.data)
            self._end_hanging()

    def _feed(self) -> None:
        """Give every idle worker a trial, and start workers as long as there is work for them."""
        while True:
            idle = next((worker for worker in self.workers if worker.trial is None), None)
            if idle is None and len(self.workers) >= self.load.workers:
                return
            trial = self.load.next_trial()
            if trial is None:
                return
            if idle is None:
                idle = Worker(self.load, self.number % self.load.workers)
                self.number += 1
                self.workers.append(idle)
                self.selector.register(idle.answers, selectors.EVENT_READ, idle)
            idle.give(trial, self.load.jobs.keys(trial))

    def _read(self, worker: Worker) -> None:
        messages = worker.messages()
        if messages is None:
            self._remove(worker)
            return
        for message in messages:
            trial = worker.trial
            if trial is None:
                continue
            worker.beat()
            if "note" in message:
                self.load.control.note(trial, message["note"])
            elif "beat" not in message:
                worker.trial, self.losses = None, 0
                self.load.take(trial, message)

    def _end_hanging(self) -> None:
        now, timeout = time.monotonic(), self.load.timeout
        if now - self.checked > PAUSE:  # this process was stopped, and has not listened
            for worker in self.workers:
                worker.heard += now - self.checked
                worker.begun = worker.begun and worker.begun + now - self.checked
        self.checked = now
        for worker in [worker for worker in self.workers if worker.trial is not None]:
            quiet, running = now - worker.heard, now - (worker.begun or now)
            if quiet > SILENT:
                worker.silent = True
                worker.reason = f"its process gave no sign of life for {quiet:.0f} s"
            elif timeout is not None and running > timeout:
                worker.reason = f"it took longer than the {timeout:g} s of --trial-timeout"
            else:
                continue
            worker.process.kill()
            self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        """Forget a process that has ended, and run its trial again or record it as failed."""
        self.selector.unregister(worker.answers)
        self.workers.remove(worker)
        code = worker.close(kill=False)
        trial = worker.trial
        if trial is None:
            return
        self.losses += worker.silent
        if self.losses > ATTEMPTS * self.load.workers:  # then it is not the trials
            text = f"gave no sign of life for {SILENT:g} s. Finished trials are kept."
            hint = f"check the disk of {self.load.folder}, and run the same command again"
            self.load.stop(StudyError(f"one process after the other {text}", hint))
        error = _error(worker, code, self.load.folder)
        self.load.retry(trial, ATTEMPTS, error, worker.reason)


def _error(worker: Worker, code: int, folder: Path) -> str:
    """Why the trial of a process that has ended counts as failed."""
    if worker.reason:
        error = f"The trial was ended {ATTEMPTS} times, the last time because {worker.reason}."
        hint = " If it only takes long, give --trial-timeout more seconds."
        return error if worker.silent else error + hint
    end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    memory = " Perhaps memory ran out: use fewer --workers or smaller batches."
    hint = memory if code == -signal.SIGKILL else ""
    return (
        f"The process that ran this trial ended with {end}, {ATTEMPTS} times.{hint} "
        f"What it printed is in {folder.name}/logs."
    )


def _log(folder: Path, number: int) -> int:
    """The file that a worker prints to."""
    logs = folder / "logs"
    try:
        logs.mkdir(exist_ok=True)
        if logs.is_symlink():
            return subprocess.DEVNULL
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return os.open(logs / f"worker-{number}.log", flags, 0o666)
    except OSError:
        return subprocess.DEVNULL


def environment(
    number: int, workers: int, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a worker: our import path, its threads, its GPU."""
    environ = dict(os.environ if variables is None else variables)
    environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for limit in LIMITS:
        environ[limit] = str(threads())  # not a share of the cores, which would change numbers
    # for tokenizers, which compute no numbers
    environ.setdefault("RAYON_NUM_THREADS", str(max(1, cores() // workers)))
    cards = gpus(environ)
    if len(cards) > 1:
        environ["CUDA_VISIBLE_DEVICES"] = cards[number % len(cards)]
    return environ


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environ: Mapping[str, str]) -> list[str]:
    """The GPUs that may be used, by the names CUDA_VISIBLE_DEVICES takes."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [card.strip() for card in visible.split(",") if card.strip()]
    return [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
