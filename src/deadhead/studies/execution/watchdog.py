"""When a running trial counts as hanging: no sign of life, or no progress for too long.

A process gives a sign of life every few seconds, whatever it computes; one that was stopped, or
waits for a disk that does not answer, gives none. Progress is a new note of the trial, such as the
next update of a training. All times are monotonic, so setting the clock changes nothing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deadhead.studies.store.folder import StudyError

BEAT = 5.0  # seconds between two signs of life
SILENT = 180.0  # seconds without one
STARTS = 60.0  # seconds that a process may take until its first
ENOUGH = 3  # finished trials, before their times are used
TIMES = 20  # the longest of them
FLOOR = 1800.0  # seconds; trials of one study may differ much
PAUSE = 10.0  # seconds between two checks: more means that this process was stopped itself
AUTO = "auto"


@dataclass
class Life:
    """The times of one running trial."""

    begin: float
    first: float  # the first sign of life; until then, when it is due
    heard: float  # the last one
    moved: float  # the last progress
    note: str = ""

    def shift(self, seconds: float) -> None:
        self.begin, self.first = self.begin + seconds, self.first + seconds
        self.heard, self.moved = self.heard + seconds, self.moved + seconds


@dataclass(frozen=True)
class Hang:
    """A trial that hangs, and why it counts as hanging."""

    trial: str
    seconds: float
    silent: bool  # the process gave no sign of life: not the trial's fault
    limit: float
    chosen: bool = False  # the user set the limit

    @property
    def reason(self) -> str:
        if self.silent:
            return f"its process gave no sign of life for {self.seconds:.0f} s"
        if self.chosen:
            return f"it took longer than the {self.limit:g} s of --trial-timeout"
        return (
            f"it made no progress for {self.seconds:.0f} s, at least {TIMES} times as long as "
            "the longest trial so far"
        )


class Watchdog:
    """Follows the running trials.

    timeout: seconds that a trial may take; "auto": as long as it makes progress, compared with the
    trials before; None: no limit.
    """

    def __init__(
        self, timeout: float | str | None = AUTO, clock: Callable[[], float] = time.monotonic
    ):
        self.timeout, self.clock = timeout, clock
        self.silent: float | None = SILENT  # None if nobody gives a sign of life
        self.starts = STARTS  # infinite if a trial may wait for a place to run
        self.lives: dict[str, Life] = {}
        self.longest, self.done = 0.0, 0
        self._checked = clock()

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
            self.longest = max(self.longest, self.clock() - life.begin)

    def seconds(self, trial: str) -> float:
        """How long a trial has been running."""
        return self.clock() - self.lives[trial].begin if trial in self.lives else 0.0

    def quiet(self, trial: str) -> float:
        """How long its process has given no sign of life."""
        return max(0.0, self.clock() - self.lives[trial].heard) if trial in self.lives else 0.0

    def has_begun(self, trial: str) -> bool:
        """Whether its process gave a sign of life, or should have given one by now."""
        return trial in self.lives and self.lives[trial].first <= self.clock()

    @property
    def limit(self) -> float | None:
        """Seconds without progress that count as hanging; None while that is unknown."""
        if self.timeout != AUTO:
            return None
        return max(FLOOR, TIMES * self.longest) if self.done >= ENOUGH else None

    def hanging(self) -> Iterator[Hang]:
        """The trials that hang now."""
        now = self.clock()
        if now - self._checked > PAUSE:  # this process was stopped, and has not listened
            for life in self.lives.values():
                life.shift(now - self._checked)
        self._checked = now
        limit, chosen = self.limit, None if isinstance(self.timeout, str) else self.timeout
        for trial, life in list(self.lives.items()):
            if self.silent is not None and now - life.heard > self.silent:
                yield Hang(trial, now - life.heard, True, self.silent)
            elif chosen is not None and now - life.first > chosen:
                yield Hang(trial, now - life.first, False, chosen, chosen=True)
            elif limit is not None and now - life.moved > limit:
                yield Hang(trial, now - life.moved, False, limit)


def check_timeout(timeout: float | str | None, executor: str) -> None:
    """Refuse a limit that is no positive number, or that the executor cannot enforce."""
    if timeout is None or timeout == AUTO:
        return
    if isinstance(timeout, bool | str) or not 0 < timeout < float("inf"):
        raise StudyError(
            f"--trial-timeout expects a number of seconds above 0, got {timeout!r}.",
            "give --trial-timeout a number above 0, or off",
        )
    if executor == "serial":
        message = "an executor that can end a trial, got serial, which runs it in this process"
        hint = "use --executor local with --trial-timeout"
        raise StudyError(f"--trial-timeout expects {message}.", hint)
