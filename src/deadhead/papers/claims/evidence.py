"""Evidence: the numbers that claims are judged by, from studies or from the papers' own tables.

`from_study.py` and `from_papers.py` collect it; the claims only read it, so one function judges a
paper's own tables and anybody's study. Evidence on all tasks or languages that a statement is
about, and on no others, is whole (`rule.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deadhead.results import Measurement, Merged, RankedHeads, Score, Search
from deadhead.results.means import Mean as Mean
from deadhead.results.means import group_by as group_by
from deadhead.results.means import means as means
from deadhead.results.searches import pairs_among
from deadhead.tasks.languages import paper_languages

PARTS = ("scores", "searches", "merged", "measures", "rankings", "rhos")
GLUE = ("mnli", "qqp", "qnli", "sst2")
TENTHS = set(range(10, 100, 10))  # percent of the heads


@dataclass(frozen=True, kw_only=True)
class Rho:
    """Spearman's rho between the gains of pairs and something else about them."""

    model: str
    task: str
    setting: str
    against: str  # "uriel distance" or "ranking similarity"
    rho: float
    pairs: int
    p: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """All numbers that a claim may be judged by."""

    scores: tuple[Score, ...] = ()
    searches: tuple[Search, ...] = ()
    merged: tuple[Merged, ...] = ()
    measures: tuple[Measurement, ...] = ()
    rankings: tuple[RankedHeads, ...] = ()
    rhos: tuple[Rho, ...] = ()  # where a paper states them and they cannot be computed
    printed: bool = False  # by a paper

    @cached_property
    def final(self) -> list[Score]:
        """The scores after all epochs."""
        return [score for score in self.scores if score.epoch is None]

    @cached_property
    def pairs(self) -> tuple[Search, ...]:
        """The searches from languages to another one, repeats with other seeds as one."""
        return pairs_among(self.searches)

    def results(self, *parts: str) -> list[Any]:
        """All results in some of its parts."""
        return [result for part in parts for result in getattr(self, part)]

    def __add__(self, other: Evidence) -> Evidence:
        both = {part: getattr(self, part) + getattr(other, part) for part in PARTS}
        return Evidence(**both, printed=self.printed and other.printed)


def all_of_glue(tasks: Iterable[str]) -> bool:
    return set(tasks) == set(GLUE)


def all_of_xnli(targets: Iterable[str]) -> bool:
    return set(targets) == set(paper_languages("mbert-prunability"))


def all_of_wmt(targets: Iterable[str]) -> bool:
    return set(targets) == {"en-ru", "en-de"}
