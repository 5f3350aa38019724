"""How much does each head matter? One file per method, and `rank`, which runs any of them.

`RANKERS` has the class of every method. Importing this package, or a method, loads no torch: `rank`
is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadhead.display.progress import Progress, silent

from .methods import METHOD, RANKERS, check_method, ranker
from .ranker import Ranker, Scores

if TYPE_CHECKING:
    from .run import rank


def __getattr__(name: str) -> Any:
    if name == "rank":
        return import_module(".run", __name__).rank
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "METHOD",
    "RANKERS",
    "Progress",
    "Ranker",
    "Scores",
    "check_method",
    "rank",
    "ranker",
    "silent",
]
