"""The errors a user can get: each says what it expected and got, and what to type next.

Everything deadhead raises on purpose is a `DeadheadError`; the command line prints it without a
traceback and ends with exit code 1. Any other exception is a bug.
"""

import difflib
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from deadhead.version import install_command

MANY = 40  # names; a longer list would not help
SIMILAR = 5  # names that are listed instead
NEXT = "0.3"  # the release that removes the old names of this one


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


def optional(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """Import a module of an optional dependency; package: its name, if it is not the module's."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(package or module, extra, purpose) from None


class Notice(UserWarning):
    """Something to know that needs no action; the command line prints it as one line."""


class Deprecation(Notice, FutureWarning):
    """An old name was used; the message has the new one."""


def deprecated(old: str, new: str) -> None:
    """Warn that `old` is now called `new`; Python shows this once for each line that uses it.

    An old name works for one minor release: renamed in 0.2, it works in every 0.2.x and is an
    error in 0.3. Call this where the old name is accepted: the warning names the caller of that
    function.
    """
    text = f"{old} is now {new}; the old name works until deadhead {NEXT}."
    warnings.warn(Deprecation(text), stacklevel=3)


def moved(module: str, names: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `module`: old name -> where it is now, `package.module.name`."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        deprecated(f"{module}.{name}", names[name])
        package, _, new = names[name].rpartition(".")
        return getattr(import_module(package), new)

    return find


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for an unknown name, with the most similar one and the whole list."""
    names = sorted(known)
    similar = difflib.get_close_matches(str(name), names, n=1)
    guess = f" Did you mean {similar[0]!r}?" if similar else ""
    if len(names) > MANY:
        closest = difflib.get_close_matches(str(name), names, n=SIMILAR, cutoff=0.3)
        names = [*closest, f"and {len(names)} in all"]
    return UnknownName(f"no {kind} {str(name)!r}.{guess} Known: {', '.join(names)}.")
