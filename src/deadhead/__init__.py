"""deadhead finds, removes and studies the attention heads a transformer does not need.

Public are the names in `__all__` below, the modules `errors` and `layout`, and what these
packages list in their own `__all__`: `heads`, `effects`, `strategies`, `rankers`, `ranking`,
`embedding`, `shrinking`, `verify`, `exports`, `tasks`, `training`, `measures`, `translation`,
`studies`, `results`, `vocabulary` and `papers.claims`.

Everything else is internal and may change in any release: the modules inside the packages, and
`cli`, `display`, `files`, `forward`, `guard`, `numerics`, `recipes`, `registry`, `report`, `saved`,
`version` and `world`.

The names below are imported when first used, so that `import deadhead` is instant and loads no
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deadhead.version import __version__

if TYPE_CHECKING:
    from deadhead import strategies
    from deadhead.effects import (
        direct_effects,
        edge_effects,
        faithfulness,
        patch_effects,
        path_effects,
    )
    from deadhead.exports import export, export_duo_attention
    from deadhead.heads.captured import Captured, captured
    from deadhead.heads.discover import discover
    from deadhead.heads.gates import gated
    from deadhead.heads.load import load
    from deadhead.heads.means import HeadMeans, head_means
    from deadhead.heads.prune import prune
    from deadhead.heads.save import save
    from deadhead.heads.streaming import Streaming
    from deadhead.layout import Head, HeadLayout
    from deadhead.rankers import rank
    from deadhead.ranking import Ranking
    from deadhead.shrinking import Shrunk, refit, shrink
    from deadhead.tasks import encode, load_data
    from deadhead.training import evaluate, finetune
    from deadhead.verify.check_ablation import AblationCheck, check_ablation
    from deadhead.vocabulary import Trimmed, trim_vocabulary

_MODULES = {
    "effects": ("direct_effects", "edge_effects", "faithfulness", "patch_effects", "path_effects"),
    "layout": ("Head", "HeadLayout"),
    "exports": ("export", "export_duo_attention"),
    "heads": (
        *("Captured", "HeadMeans", "Streaming", "captured", "discover", "gated", "head_means"),
        *("load", "prune", "save"),
    ),
    "verify": ("AblationCheck", "check_ablation"),
    "rankers": ("rank",),
    "ranking": ("Ranking",),
    "shrinking": ("Shrunk", "refit", "shrink"),
    "tasks": ("encode", "load_data"),
    "training": ("evaluate", "finetune"),
    "vocabulary": ("Trimmed", "trim_vocabulary"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["AblationCheck", "Captured", "Head", "HeadLayout", "HeadMeans", "Ranking", "Shrunk"]
__all__ += ["Streaming", "Trimmed", "__version__", "captured", "check_ablation", "direct_effects"]
__all__ += ["discover", "edge_effects", "encode", "evaluate", "export", "export_duo_attention"]
__all__ += ["faithfulness", "finetune", "gated", "head_means", "load", "load_data"]
__all__ += ["patch_effects", "path_effects", "prune", "rank", "refit", "save", "shrink"]
__all__ += ["strategies", "trim_vocabulary"]


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return importlib.import_module("deadhead.strategies")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"deadhead.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
