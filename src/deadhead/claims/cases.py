"""The cases that the papers' statements speak of. Evidence that has all of them, and no others, is whole (`shown.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from deadhead.results import Merged, Search

from .evidence import GLUE, Evidence
from .from_papers import printed
from .scope import of_models
from .subjects import MULTI

TRANSLATED = {"en-ru", "en-de"}
SPOKEN = {
    "en",
    "es",
    "de",
    "vi",
    "zh",
    "hi",
    "el",
    "ur",
    "ar",
    "tr",
    "sw",
}  # of XNLI, those the paper scores
TENTHS = set(range(10, 100, 10))  # percent of the heads drawn out


def all_of_glue(tasks: Iterable[str]) -> bool:
    return set(tasks) == set(GLUE)


def all_of_xnli(targets: Iterable[str]) -> bool:
    return set(targets) == SPOKEN


def all_of_wmt(targets: Iterable[str]) -> bool:
    return set(targets) == TRANSLATED


def all_pairs(
    found: Sequence[Search], chosen: Callable[[Evidence], Sequence[Search]], several: bool = False
) -> bool:
    """Whether these are the pairs that the paper's tables have, chosen there in the same way: of one model, or of `several`."""
    tables = (
        printed() if several else of_models(printed(), (MULTI,))
    )  # which have the same pairs for each model
    return Counter(map(_pair, found)) == Counter(map(_pair, chosen(tables)))


def _pair(search: Search) -> tuple[str, ...]:
    return search.task, search.source, search.target, search.setting


def all_targets(found: Sequence[Merged]) -> bool:
    """Whether these are the targets that the paper's table of several sources has, on their tasks."""
    tasks = {m.task for m in found}
    theirs = [(m.task, m.target) for m in printed().merged if m.task in tasks]
    return Counter((m.task, m.target) for m in found) == Counter(theirs)
