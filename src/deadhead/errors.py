"""The errors a user can get: each says what it expected and got, and what to type next.

Everything deadhead raises on purpose is a `DeadheadError`; the command line prints it without a
traceback and ends with exit code 1. Any other exception is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from deadhead.version import install_command

MANY = 40  # names; a longer list would not help
SIMILAR = 5  # names that are listed instead


class DeadheadError(Exception):
    """What was expected and what it got; the hint, on a second line, is what to type next."""

    def __init__(self, message: str, hint: str | None = None):
        self.message, self.hint = message, hint
        super().__init__(message if hint is None else f"{message}\n  Hint: {hint}")


class HeadError(DeadheadError):
    """Heads do not fit the model: out of range, named twice, removed before, or the last ones."""


class GroupError(HeadError):
    """Some but not all of the heads that share a key/value head were named."""


class UnknownArchitecture(DeadheadError):
    """The model has no attention that deadhead can gate and prune."""


class NoAttention(UnknownArchitecture):
    """The model has no attention at all."""


class UnsupportedModel(DeadheadError):
    """The model cannot be pruned in its state: quantised, on the meta device, with adapters."""


class FolderError(DeadheadError):
    """A model folder is damaged, of a newer format, or does not fit its list of removed heads."""


class UnknownName(DeadheadError):
    """A name that is not in its list."""


class DataError(DeadheadError):
    """Data that cannot be read, or that does not fit the model or the task."""


class MissingExtra(DeadheadError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str, otherwise: str = ""):
        hint = install_command(extra) + (f", or {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs the package {package!r}, which is not installed.", hint)


class Notice(UserWarning):
    """Something to know that needs no action; the command line prints it as one line."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for an unknown name, with the most similar one and the whole list."""
    names = sorted(known)
    similar = difflib.get_close_matches(str(name), names, n=1)
    guess = f" Did you mean {similar[0]!r}?" if similar else ""
    if len(names) > MANY:
        closest = difflib.get_close_matches(str(name), names, n=SIMILAR, cutoff=0.3)
        names = [*closest, f"and {len(names)} in all"]
    return UnknownName(f"no {kind} {str(name)!r}.{guess} Known: {', '.join(names)}.")
