"""deadhead finds, removes and studies the attention heads a transformer does not need.

The names below are the whole everyday API. They are looked up when first used, so that
`import deadhead` is instant and loads no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deadhead import strategies
    from deadhead.heads import discover, export, gated, load, prune, save
    from deadhead.layout import Head, HeadLayout
    from deadhead.rankers import rank
    from deadhead.ranking import Ranking
    from deadhead.tasks import encode, load_data
    from deadhead.training import evaluate, finetune

_HOME = {
    "Head": "layout",
    "HeadLayout": "layout",
    "discover": "heads",
    "gated": "heads",
    "prune": "heads",
    "save": "heads",
    "load": "heads",
    "export": "heads",
    "rank": "rankers",
    "Ranking": "ranking",
    "finetune": "training",
    "evaluate": "training",
    "load_data": "tasks",
    "encode": "tasks",
}

__all__ = ["Head", "HeadLayout", "Ranking", "discover", "encode", "evaluate", "export", "finetune"]
__all__ += ["gated", "load", "load_data", "prune", "rank", "save", "strategies"]


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return importlib.import_module(".strategies", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
