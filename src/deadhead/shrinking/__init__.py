"""Make a model smaller without training: choose heads and neurons, remove them, refit the rest.

Importing this package loads no torch, so that the help can list the methods: `shrink` and `refit`
are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .allocate import Budget, Curve, Place, allocate, removal, units_of
from .choose import AUTO, CHOOSERS, Choice, check_method, choose, method_names
from .chooser import Chooser
from .shrunk import Shrunk
from .target import COMPENSATIONS, TARGETS, check_compensation, kinds_of, read_targets

if TYPE_CHECKING:
    from .refitting import RefitReport, refit
    from .run import shrink

_MODULE_OF = {"RefitReport": "refitting", "refit": "refitting", "shrink": "run"}

__all__ = ["AUTO", "CHOOSERS", "COMPENSATIONS", "TARGETS", "Budget", "Choice", "Chooser"]
__all__ += ["Curve", "Place", "RefitReport", "Shrunk", "allocate", "check_compensation"]
__all__ += [
    "check_method",
    "choose",
    "kinds_of",
    "method_names",
    "read_targets",
    "refit",
    "removal",
    "shrink",
    "units_of",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
