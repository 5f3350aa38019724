"""When a running trial counts as hanging: its process gives no sign of life, or it makes no progress for too long.

A process gives a sign of life every few seconds, whatever it computes; one that was stopped, or waits for a
disk that does not answer, gives none. Progress is a new note (`tell`), such as the next update of a training.
All times are monotonic: a clock that is set back changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deadhead.studies.store.folder import StudyError

BEAT = 5.0  # seconds between two signs of life
SILENT = 180.0  # seconds without one
STARTS = 60.0  # seconds that a process may take until its first
ENOUGH = 3  # trials that must be done before their times say something
TIMES = 20  # the longest of them
FLOOR = 1800.0  # seconds; trials of one study may differ much
PAUSE = 10.0  # seconds: whoever looks so seldom was stopped itself
AUTO = "auto"


@dataclass
class Life:
    """What is known of one running trial."""

    begun: float
    first: float  # the first sign of life; until then, when it is due
    heard: float  # the last one
    moved: float  # the last progress
    note: str = ""

    def shift(self, seconds: float) -> None:
        self.begun, self.first = self.begun + seconds, self.first + seconds
        self.heard, self.moved = self.heard + seconds, self.moved + seconds


@dataclass(frozen=True)
class Hang:
    """A trial that hangs, and how one can tell."""

    trial: str
    seconds: float
    silent: bool  # the process gave no sign of life: not the trial's fault
    limit: float
    chosen: bool = False  # the limit was given by the user

    @property
    def reason(self) -> str:
        if self.silent:
            return f"its process gave no sign of life for {self.seconds:.0f} s"
        if self.chosen:
            return f"it took longer than the {self.limit:g} s of --trial-timeout"
        return f"it made no progress for {self.seconds:.0f} s, {TIMES} times as long as the longest trial so far or more"


class Watchdog:
    """Follows the running trials.

    timeout: seconds a trial may take; "auto": as long as it makes progress, judged by the trials before; None: no limit.
    """

    def __init__(
        self, timeout: float | str | None = AUTO, clock: Callable[[], float] = time.monotonic
    ):
        self.timeout, self.clock = timeout, clock
        self.silent: float | None = SILENT  # None where nobody gives a sign of life
        self.starts = STARTS  # infinite where a trial may wait for a place to run
        self.lives: dict[str, Life] = {}
        self.longest, self.done = 0.0, 0
        self._looked = clock()

    def begin(self, trial: str) -> None:
        now = self.clock()
        due = now + self.starts
        self.lives[trial] = Life(now, due, due, due)

    def beat(self, trial: str) -> None:
        life = self.lives.get(trial)
        if life is not None:
            life.heard = self.clock()
            if life.first > life.heard:
                life.first = life.moved = life.heard

    def note(self, trial: str, text: str) -> None:
        self.beat(trial)
        life = self.lives.get(trial)
        if life is not None and text != life.note:
            life.note, life.moved = text, life.heard

    def end(self, trial: str, *, done: bool = False) -> None:
        life = self.lives.pop(trial, None)
        if life is not None and done:
            self.done += 1
            self.longest = max(self.longest, self.clock() - life.begun)

    def seconds(self, trial: str) -> float:
        """How long a trial has been running."""
        return self.clock() - self.lives[trial].begun if trial in self.lives else 0.0

    def quiet(self, trial: str) -> float:
        """How long its process has given no sign of life."""
        return max(0.0, self.clock() - self.lives[trial].heard) if trial in self.lives else 0.0

    @property
    def limit(self) -> float | None:
        """Seconds without progress after which a trial counts as hanging; None while that cannot be told."""
        if self.timeout != AUTO:
            return None
        return max(FLOOR, TIMES * self.longest) if self.done >= ENOUGH else None

    def hanging(self) -> Iterator[Hang]:
        """The trials that hang now."""
        now = self.clock()
        if now - self._looked > PAUSE:  # we were stopped ourselves, and have not listened
            for life in self.lives.values():
                life.shift(now - self._looked)
        self._looked = now
        limit, chosen = self.limit, self.timeout if not isinstance(self.timeout, str) else None
        for trial, life in list(self.lives.items()):
            if self.silent is not None and now - life.heard > self.silent:
                yield Hang(trial, now - life.heard, True, self.silent)
            elif chosen is not None and now - life.first > chosen:
                yield Hang(trial, now - life.first, False, chosen, chosen=True)
            elif limit is not None and now - life.moved > limit:
                yield Hang(trial, now - life.moved, False, limit)


def check_timeout(timeout: float | str | None, executor: str) -> None:
    """Refuse a limit that means nothing, or that nobody could keep."""
    if timeout is None or timeout == AUTO:
        return
    if isinstance(timeout, bool | str) or not 0 < timeout < float("inf"):
        raise StudyError(
            f"a trial cannot be limited to {timeout!r} seconds.",
            "give --trial-timeout a number above 0, or off",
        )
    if executor == "serial":
        raise StudyError(
            "the executor serial runs trials in this process and cannot end one.",
            "use --executor local with --trial-timeout",
        )
