"""The errors a user can meet, each one sentence of what was met and one line to type next.

Everything deadhead raises on purpose is a `DeadheadError`; the command line prints it without a
traceback and ends with exit code 1. Anything else that escapes is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from deadhead.install import command

MANY = 40  # names beyond which a list of all of them helps nobody


class DeadheadError(Exception):
    """What was met and what was wanted, and, on a second line, what to type next."""

    def __init__(self, message: str, hint: str | None = None):
        self.message, self.hint = message, hint
        super().__init__(message if hint is None else f"{message}\n  Hint: {hint}")


class HeadError(DeadheadError):
    """The heads named do not fit the model: out of range, named twice, already gone, or the last ones."""


class GroupError(HeadError):
    """Some but not all of the heads that must go together were named (they share key and value)."""


class UnknownArchitecture(DeadheadError):
    """No attention that deadhead can gate or cut was found, or it is of a kind it refuses."""


class NoAttention(UnknownArchitecture):
    """The model has no attention at all."""


class UnsupportedModel(DeadheadError):
    """The model is in a state in which it cannot be cut: quantised, on the meta device, with adapters."""


class FolderError(DeadheadError):
    """A model folder is damaged, of a newer format, or does not fit the heads it says were removed."""


class UnknownName(DeadheadError):
    """A name that is not in the list it was looked up in."""


class DataError(DeadheadError):
    """Data that cannot be read, or that does not fit the model or the task."""


class MissingExtra(DeadheadError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str, otherwise: str = ""):
        hint = command(extra) + (f", or {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs the package {package!r}, which is not installed.", hint)


class Notice(UserWarning):
    """What a user should know and need not act on; the command line prints it as one line."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not known, with the nearest one and the whole list."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) > MANY:
        names = [
            *difflib.get_close_matches(str(name), names, n=5, cutoff=0.3),
            f"and {len(names)} in all",
        ]
    return UnknownName(f"no {kind} {str(name)!r}.{guess} Known: {', '.join(names)}.")
