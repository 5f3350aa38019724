"""Fine-tune a model: `finetune`, its `Settings`, the papers' `PRESETS` and grids, and the `History` that comes of it.

>>> from deadhead.finetune import finetune, preset
>>> history = finetune(model, train, preset("weak-link-bert", "sst2"), dev=dev)
>>> history.restore(model, "best")
"""

from .training.history import Epoch, History
from .training.loop import finetune
from .training.progress import Tick
from .training.search import search
from .training.settings import GRIDS, PRESETS, Settings, SettingsError, grid, preset

__all__ = [
    "GRIDS",
    "PRESETS",
    "Epoch",
    "History",
    "Settings",
    "SettingsError",
    "Tick",
    "finetune",
    "grid",
    "preset",
    "search",
]
