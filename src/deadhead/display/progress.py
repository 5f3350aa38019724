"""How far work is: a bar in a terminal, a line under the cell in a notebook, nothing in a log.

`rank`, `finetune`, `evaluate` and the other functions that take long have `progress=True`. In a log
only the command line says something: a line for each stage, and one now and then in a long stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

EVERY = 0.25  # seconds between two changes of what is on the screen
QUICK = 0.5  # seconds; work that ends sooner leaves nothing in a notebook
LOG_LINE = 30.0  # seconds between two lines of a log about one stage
_logs: list[Callable[[str], None]] = []  # how to say a line in the log of a command that runs now


class Progress(Protocol):
    """Called as work proceeds; `note` describes its state, such as the bound reached."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


def silent(done: int, total: int, note: str = "") -> None:
    """The progress that nobody watches."""


@contextmanager
def logged(say: Callable[[str], None]) -> Iterator[None]:
    """Say what begins and how far it is in lines, for a command outside of a terminal."""
    _logs.append(say)
    try:
        yield
    finally:
        _logs.pop()


def stage(text: str) -> None:
    """Say in the log of a command what begins now."""
    if _logs:
        _logs[-1](text)


def clock(seconds: float) -> str:
    """A time for people: `12 s`, `1:05`, `1:00:05`, `2.5 days` or `3.1 years`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 24 * 365:
        return f"{hours / 24 / 365:.1f} years"
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


@contextmanager
def reported(progress: bool | Progress, title: str) -> Iterator[Progress]:
    """What to call as work proceeds, for the argument `progress` of a function."""
    if callable(progress):
        yield progress
    elif progress:
        with counting(title) as count:
            yield count
    else:
        yield silent


@contextmanager
def counting(title: str) -> Iterator[Progress]:
    """A bar that counts; call it with the number done, the total and a note."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter or _logs:
        yield _notebook_counter(title) if console.is_jupyter else _log_counter(title)
        return
    with bar(console) as live_bar:
        line = live_bar.add_task(title, total=None)

        def progress(done: int, total: int, note: str = "") -> None:
            live_bar.update(
                line, completed=done, total=total, description=f"{title} {note}".strip()
            )

        yield progress


def bar(console: Console, *columns: Any) -> Bar:
    """The bar of a terminal; elsewhere it shows nothing."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    shared = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    columns = (*shared, *(columns or (TimeRemainingColumn(),)))
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


def live_line() -> Any:
    """A text that changes in place, with `start`, `update` and `stop`; None in a log."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    if console.is_jupyter:
        return NotebookLine()
    return Status("", console=console) if console.is_terminal else None


class NotebookLine:
    """A line under a cell that changes in place; its last state stays.

    By IPython alone: rich needs ipywidgets in a notebook, which a saved notebook does not show.
    """

    def __init__(self) -> None:
        self._display: Any = None

    def start(self) -> None:
        """The line appears with its first text."""

    def stop(self) -> None:
        """The last text stays."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        from IPython.display import HTML, display

        share = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
        page = HTML(f"<div>{share}{escape(text)}</div>")
        if self._display is None:
            self._display = display(page, display_id=True)
        else:
            self._display.update(page)


def _log_counter(title: str) -> Progress:
    last = time.monotonic()

    def progress(done: int, total: int, note: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_LINE:
            last = time.monotonic()
            stage(f"{title} {note} {done}/{total}".replace("  ", " "))

    return progress


def _notebook_counter(title: str) -> Progress:
    line = NotebookLine()
    begin = time.monotonic()
    changed = begin + QUICK - EVERY

    def progress(done: int, total: int, note: str = "") -> None:
        nonlocal changed
        now = time.monotonic()
        is_visible = changed > begin + QUICK
        if now - changed >= EVERY or (is_visible and done == total):
            changed = now
            line.update(f"{title} {done}/{total}, {now - begin:.0f} s {note}".strip(), done, total)

    return progress
