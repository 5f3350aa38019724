"""How a command ends on Ctrl-C or SIGTERM: it cleans up, says in one line what is kept, and exits.

A shell starts a job in the background with SIGINT ignored. It stays ignored; SIGTERM ends the job.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from . import _outputs

SHELL = 128  # a shell adds this to the number of the signal that ended a command


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into one line on standard error and an exit code.

    The line is the message of the interrupt, if it has one, or else what is known of the outputs.
    """
    try:
        _outputs.checked.clear()
        with _terminable():
            yield
    except KeyboardInterrupt as interrupt:
        typer.echo(f"interrupted: {str(interrupt) or _outputs.kept()}", err=True)
        number = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
        raise typer.Exit(SHELL + number) from None


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise Terminated on SIGTERM, unless whoever started the process handles or ignores it."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
