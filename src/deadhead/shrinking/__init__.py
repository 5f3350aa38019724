"""Make a model smaller without training: choose heads and neurons, remove them, repair the rest.

Importing this package loads no torch, so that the help can list the methods: `shrink` and `refit`
are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadhead.errors import moved

from .allocate import Budget, Curve, allocate, removal, units_of
from .choose import AUTO, CHOOSERS, Choice, check_method, choose, method_names
from .chooser import Chooser
from .repairs import REPAIRS, Repair
from .shrunk import Shrunk
from .target import TARGETS, kinds_of, read_allowed, read_layers, read_targets

if TYPE_CHECKING:
    from .refitting import RefitReport, refit
    from .run import shrink

_MODULE_OF = {"RefitReport": "refitting", "refit": "refitting", "shrink": "run"}

__all__ = [
    "AUTO",
    "CHOOSERS",
    "REPAIRS",
    "TARGETS",
    "Budget",
    "Choice",
    "Chooser",
    "Curve",
    "RefitReport",
    "Repair",
    "Shrunk",
    "allocate",
    "check_method",
    "choose",
    "kinds_of",
    "method_names",
    "read_allowed",
    "read_layers",
    "read_targets",
    "refit",
    "removal",
    "shrink",
    "units_of",
]

_old_name = moved(
    __name__, {"COMPENSATIONS": f"{__name__}.REPAIRS", "Place": "deadhead.layout.SiteKey"}
)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    return _old_name(name)
