"""Train a model on a task and score it: `finetune`, `evaluate`, `predict`, settings, presets.

>>> from deadhead.training import finetune, preset
>>> history = finetune(model, train, preset("weak-link-bert", "sst2"), dev=dev)
>>> history.restore(model, "best")

Names are imported when they are first used: the settings alone load no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .distillation import distill
    from .evaluation import evaluate, predict
    from .history import Epoch, History
    from .loop import finetune
    from .progress import Tick
    from .settings import PRESETS, Settings, SettingsError, preset

_NAMES = {  # module -> names
    "distillation": ("distill",),
    "evaluation": ("evaluate", "predict"),
    "history": ("Epoch", "History"),
    "loop": ("finetune",),
    "progress": ("Tick",),
    "settings": ("PRESETS", "Settings", "SettingsError", "preset"),
}

__all__ = ["PRESETS", "Epoch", "History", "Settings", "SettingsError", "Tick"]
__all__ += ["distill", "evaluate", "finetune", "predict", "preset"]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
