"""Which trial comes next, and whether to go on: what every executor asks, as one `Order`.

Trials that share work are not begun side by side while one of them makes it: the others wait, and
find it ready. The first of each kind go first, so that many can follow.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial

from .watchdog import Watchdog

WORK = "deadhead.studies.execution.one_trial:run_trial"
GO, FINISH, NOW = 0, 1, 2  # go on; finish the running trials; stop at once
EVERY = 0.5  # seconds between looks at the folder
REPORTS = 100  # kept of a run


class Jobs:
    """The trials still to do. `next` gives one that can begin now, `finished` takes it back."""

    def __init__(
        self,
        trials: Iterable[Trial],
        shared: Collection[str] = (),
        ready: Callable[[str], bool] = lambda key: False,
    ):
        self.shared = frozenset(shared)
        self._ready = ready
        self._busy: dict[str, str] = {}  # key of work being made -> trial that makes it
        self._made: set[str] = set()  # keys of work that was made in this run, wherever it lies
        self._waiting: dict[str, deque[Trial]] = {}
        first: dict[str, list[Trial]] = {"": []}
        seen: set[str] = set()
        for trial in trials:
            new = [key for key in trial.work if key in self.shared and key not in seen]
            seen.update(new)
            first.setdefault("new" if new else "", []).append(trial)
        self._queue = deque([*first.get("new", ()), *first[""]])

    def __len__(self) -> int:
        return len(self._queue) + sum(map(len, self._waiting.values()))

    def keys(self, trial: Trial) -> list[str]:
        """The shared work this trial has a use for."""
        return [key for key in trial.work if key in self.shared]

    def next(self) -> Trial | None:
        """A trial that can begin now; None if there is none, or none until another has finished."""
        while self._queue:
            trial = self._queue.popleft()
            missing = [
                key for key in self.keys(trial) if key not in self._made and not self._ready(key)
            ]
            taken = next((key for key in missing if key in self._busy), None)
            if taken is None:
                self._busy.update(dict.fromkeys(missing, trial.id))
                return trial
            self._waiting.setdefault(taken, deque()).append(trial)
        return None

    def finished(self, trial: Trial, *, done: bool = True) -> None:
        """Let those go on that waited for work of this trial."""
        if done:
            self._made.update(self.keys(trial))
        for key in [key for key, maker in self._busy.items() if maker == trial.id]:
            del self._busy[key]
            self._queue.extendleft(reversed(self._waiting.pop(key, deque())))

    def back(self, trial: Trial) -> None:
        """Put back a trial that could not be run to its end."""
        self.finished(trial, done=False)
        self._queue.appendleft(trial)


class Control:
    """Whether to go on (Ctrl-C, `deadhead stop`), and the file that tells others what is running."""

    def __init__(
        self,
        folder: Path,
        before: Mapping[str, int],
        left: int,
        workers: int,
        watch: Callable[[dict[str, Any]], None] | None = None,
        watchdog: Watchdog | None = None,
    ):
        """before: how many of the trials have a record that stays, by its state; left: how many are to be run."""
        self.folder, self.watch = folder, watch
        self.watchdog = watchdog or Watchdog()
        self.asked, self._begun = GO, time.monotonic()
        self.facts: dict[str, Any] = {
            "pid": os.getpid(),
            "started": time.time(),
            "total": left + sum(before.values()),
            "before": dict(before),
            "done": 0,
            "failed": 0,
            "workers": workers,
            "sharing": "",  # how workers share a GPU, once they do
            "reports": [],  # what went wrong and was put right
        }
        self.running: dict[str, dict[str, Any]] = {}
        self._looked = 0.0

    def begin(self, trial: Trial) -> None:
        self.running[trial.id] = {"since": time.time(), "note": ""}
        self.watchdog.begin(trial.id)

    def note(self, trial: Trial, text: str) -> None:
        if trial.id in self.running:
            self.running[trial.id]["note"] = text
            self.watchdog.note(trial.id, text)

    def drop(self, trial: Trial) -> None:
        """Forget a trial that could not be run to its end."""
        self.running.pop(trial.id, None)
        self.watchdog.end(trial.id)

    def report(self, text: str) -> None:
        """Tell people of something that went wrong and was put right."""
        self.facts["reports"] = [*self.facts["reports"], text][-REPORTS:]
        self._looked = 0.0

    def end(self, record: Record) -> None:
        self.running.pop(record.trial.id, None)
        self.watchdog.end(record.trial.id, done=record.state == "done")
        self.facts["failed" if record.state == "failed" else "done"] += 1

    def level(self) -> int:
        """GO, FINISH or NOW; also tells the world, every so often, what is running."""
        now = time.monotonic()
        if now - self._looked >= EVERY:
            self._looked = now
            with suppress(OSError):
                text = place.read(self.folder / "stop")
                self.asked = max(self.asked, NOW if text.strip() == "now" else FINISH)
            self.tell()
        return self.asked

    def tell(self) -> None:
        dog = self.watchdog
        running = {
            name: {**one, "seconds": round(dog.seconds(name), 1)}
            for name, one in self.running.items()
        }
        for name, one in running.items() if dog.silent is not None else ():
            one["quiet"] = round(dog.quiet(name), 1)
        times = {
            "now": time.time(),
            "elapsed": time.monotonic() - self._begun,
            "longest": dog.longest,
        }
        facts = {**self.facts, **times, "stopping": self.asked > GO, "running": running}
        with suppress(place.StudyError):  # a full disk is told by the records
            place.write(self.folder / "live.json", json.dumps(facts), durable=False)
        if self.watch is not None:
            self.watch(facts)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C once: finish what runs. Twice: at once. Only the main thread can catch it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def caught(number: int, frame: FrameType | None) -> None:
            self.asked = min(NOW, self.asked + 1)
            self._looked = 0.0

        old = {number: signal.signal(number, caught) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


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

    def back(self, trial: Trial) -> None:
        """Put back a trial that could not be run to its end, through no fault of its own as far as one can tell."""
        self.jobs.back(trial)
        self.control.drop(trial)

    def ended(self, record: Record) -> None:
        self.jobs.finished(record.trial, done=record.state == "done")
        self.control.end(record)
        for text in record.details.get("damaged work", ()):
            self.control.report(text)
        self.finish(record)


def function(work: str) -> Callable[..., Record]:
    """The function a text such as `package.module:name` names."""
    module, _, name = work.partition(":")
    found: Callable[..., Record] = getattr(importlib.import_module(module), name)
    return found
