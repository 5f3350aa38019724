"""Which trial comes next, and whether to continue: what every executor needs, as a `Workload`.

Trials that share work do not start together while one of them computes it: the others wait, and
then use it. The first trial of each kind goes first, so that many can follow.
"""

import json
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any

from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Record, write
from deadhead.studies.trial import Trial
from deadhead.version import versions

WORK = "deadhead.studies.execution.one_trial:run_trial"
GO, FINISH, NOW = 0, 1, 2  # continue; finish the running trials; stop at once
EVERY = 0.5  # seconds between checks of the study's folder
REPORTS = 100  # the last ones are kept


class Jobs:
    """The trials still to do. `next` gives one that can start now, `finished` takes it back."""

    def __init__(
        self,
        trials: Iterable[Trial],
        shared: Collection[str] = (),
        ready: Callable[[str], bool] = lambda key: False,
    ):
        """shared: keys of work that several trials use; ready: whether such work is stored."""
        self.shared = frozenset(shared)
        self._ready = ready
        self._busy: dict[str, str] = {}  # key of work in progress -> trial that does it
        self._complete: set[str] = set()  # keys of work done in this run, on whatever node
        seen: set[str] = set()
        first: list[Trial] = []
        later: list[Trial] = []
        for trial in trials:
            (later if seen.issuperset(self.keys(trial)) else first).append(trial)
            seen.update(self.keys(trial))
        self._queue = [*first, *later]

    def keys(self, trial: Trial) -> list[str]:
        """The shared work that this trial uses."""
        return [key for key in trial.work if key in self.shared]

    def next(self) -> Trial | None:
        """A trial that can start now; None if there is none, or if all wait for others."""
        for number, trial in enumerate(self._queue):
            keys = [key for key in self.keys(trial) if key not in self._complete]
            if self._busy.keys().isdisjoint(keys):
                missing = [key for key in keys if not self._ready(key)]
                self._busy.update(dict.fromkeys(missing, trial.id))
                del self._queue[number]
                return trial
        return None

    def finished(self, trial: Trial, *, done: bool = True) -> None:
        """Release the trials that wait for work of this one."""
        if done:
            self._complete.update(self.keys(trial))
        self._busy = {key: worker for key, worker in self._busy.items() if worker != trial.id}

    def put_back(self, trial: Trial) -> None:
        """Return a trial that could not be run to its end."""
        self.finished(trial, done=False)
        self._queue.insert(0, trial)


class Control:
    """Whether to continue (Ctrl-C, `deadhead stop`), and the file that says what is running."""

    def __init__(
        self,
        folder: Path,
        watch: Callable[[dict[str, Any]], None] | None = None,
        *,
        before: Mapping[str, int],
        left: int,
        workers: int,
    ):
        """before: number of trials with a record that stays, by state; left: trials to run."""
        self.folder, self.watch = folder, watch
        self.stop, self._start = GO, time.monotonic()
        self.facts: dict[str, Any] = {
            "total": left + sum(before.values()),
            "before": dict(before),
            "done": 0,
            "failed": 0,
            "workers": workers,
            "reports": [],  # problems that were solved
        }
        self.running: dict[str, tuple[float, str]] = {}  # trial -> its start and last note
        self._checked = 0.0

    def note(self, trial: Trial, text: str) -> None:
        if trial.id in self.running:
            self.running[trial.id] = (self.running[trial.id][0], text)

    def report(self, text: str) -> None:
        """Show the user a problem that was solved."""
        self.facts["reports"] = [*self.facts["reports"], text][-REPORTS:]
        self._checked = 0.0

    def end(self, record: Record) -> None:
        self.running.pop(record.trial.id, None)
        self.facts["failed" if record.state == "failed" else "done"] += 1

    def level(self) -> int:
        """GO, FINISH or NOW; also publishes from time to time what is running."""
        now = time.monotonic()
        if now - self._checked >= EVERY:
            self._checked = now
            with suppress(OSError):
                text = place.read(self.folder / "stop")
                self.stop = max(self.stop, NOW if text.strip() == "now" else FINISH)
            self.publish()
        return self.stop

    def publish(self) -> None:
        """Write what is running to live.json, and pass it to `watch`."""
        now = time.monotonic()
        running = {
            trial: {"seconds": round(now - start, 1), "note": note}
            for trial, (start, note) in self.running.items()
        }
        facts = {
            **self.facts,
            "now": time.time(),
            "elapsed": now - self._start,
            "stopping": self.stop > GO,
            "running": running,
        }
        with suppress(place.StudyError):  # the records report a full disk
            place.write(self.folder / "live.json", json.dumps(facts), durable=False)
        if self.watch is not None:
            self.watch(facts)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C or SIGTERM once: finish what runs. Twice: stop at once.

        Only the main thread can catch them. A shell ignores SIGINT in the background: so does this.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def caught(number: int, frame: FrameType | None) -> None:
            self.stop = min(NOW, self.stop + 1)
            self._checked = 0.0

        old = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                old[number] = signal.signal(number, caught)
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


@dataclass(kw_only=True)
class Workload:
    """What an executor has to run, and where the results go."""

    jobs: Jobs
    folder: Path
    control: Control
    work: str = WORK  # module:function, called with (trial, folder, keep, note)
    workers: int = 1
    options: Mapping[str, Any] | None = None  # for the executor itself
    timeout: float | None = None  # seconds that a trial may take
    problem: place.StudyError | None = (
        None  # in the whole study: no more trials start, and it is raised
    )
    deaths: Counter[str] = field(default_factory=Counter)  # attempts that came to no end, by trial

    def next_trial(self) -> Trial | None:
        """The next trial, noted as running; None if none can start now or may start at all."""
        may = self.problem is None and self.control.level() == GO
        trial = self.jobs.next() if may else None
        if trial is not None:
            self.control.running[trial.id] = (time.monotonic(), "")
        return trial

    def put_back(self, trial: Trial) -> None:
        """Return a trial that could not be run to its end, probably through no fault of its own."""
        self.jobs.put_back(trial)
        self.control.running.pop(trial.id, None)

    def retry(self, trial: Trial, attempts: int, error: str, reason: str = "") -> None:
        """Return a trial that did not come to its end; after `attempts` attempts it has failed.

        error: for its record. reason: why it was ended, for the user.
        """
        self.deaths[trial.id] += 1
        again = self.problem is not None or self.deaths[trial.id] < attempts
        if reason:
            then = "runs again" if again else "is recorded as failed"
            self.control.report(f"trial {trial.id} was ended: {reason}. It {then}.")
        if again:
            self.put_back(trial)
        else:
            self.end(Record(trial=trial, state="failed", versions=versions(), error=error))

    def end(self, record: Record) -> None:
        self.jobs.finished(record.trial, done=record.state == "done")
        self.control.end(record)
        try:
            write(record, self.folder)
        except place.StudyError as problem:  # the others may end: their records may find room
            self.stop(problem)

    def take(self, trial: Trial, answer: Mapping[str, Any]) -> None:
        """End a trial with what `answer` returned elsewhere."""
        if "record" in answer:
            self.end(Record.from_dict(answer["record"]))
        else:  # the study's folder, not the trial, has a problem
            self.put_back(trial)
            self.stop(place.StudyError(*answer["problem"]))

    def stop(self, problem: place.StudyError) -> None:
        """Start nothing more because of a problem of the study; the first one counts."""
        self.problem = self.problem or problem


def answer(
    work: str, trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]
) -> dict[str, Any]:
    """Run a trial in this process; its record, or what is wrong with the study, as plain data."""
    try:
        record: Record = resolve_name(work)(trial, folder, frozenset(keep), tell)
    except place.GpuLost:
        traceback.print_exc()
        os._exit(1)  # every further trial would fail here; a new process may reach the GPU
    except place.StudyError as problem:
        traceback.print_exc()
        return {"problem": [problem.message, problem.hint]}
    return {"record": json.loads(record.to_json())}
