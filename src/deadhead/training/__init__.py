"""Train a model on a task and score it: `finetune`, `evaluate`, `predict`, their settings and presets.

>>> from deadhead.training import finetune, preset
>>> history = finetune(model, train, preset("weak-link-bert", "sst2"), dev=dev)
>>> history.restore(model, "best")

The names are looked up when first used: the settings alone load no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluation import evaluate, predict
    from .grid_search import search
    from .history import Epoch, History
    from .loop import finetune
    from .progress import Tick
    from .settings import GRIDS, PRESETS, Settings, SettingsError, grid, preset

_HOME = {
    "evaluate": "evaluation",
    "predict": "evaluation",
    "Epoch": "history",
    "History": "history",
    "finetune": "loop",
    "Tick": "progress",
    "search": "grid_search",
    "GRIDS": "settings",
    "PRESETS": "settings",
    "Settings": "settings",
    "SettingsError": "settings",
    "grid": "settings",
    "preset": "settings",
}

__all__ = ["GRIDS", "PRESETS", "Epoch", "History", "Settings", "SettingsError", "Tick"]
__all__ += ["evaluate", "finetune", "grid", "predict", "preset", "search"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
