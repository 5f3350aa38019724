"""Evidence: what claims are judged by, in one shape, whether a study measured it or a paper printed it.

Scores are in points (0 to 100), shares of heads in percent. `from_study.py` and `from_papers.py` make
evidence; the claims only read it, so one function judges a paper's own tables and anybody's study.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

GLUE = ("mnli", "qqp", "qnli", "sst2")
TRANSLATE = "translate"  # the kind of task
DRAWN = ("random", "stratified")  # removals that leave the choice of heads to chance
PART = re.compile(r"(top|bottom|middle|odd|even)(?: (\d+))?")
HALVES = ("top", "bottom", "middle", "odd", "even", "ends")


class OfATask:
    """What was found on a task, whose kind tells encoders from models that translate."""

    kind: str  # classify, tag, translate; empty where it is not known

    @property
    def translated(self) -> bool:
        return self.kind == TRANSLATE


@dataclass(frozen=True)
class Fact(OfATask):
    """One score of one trained model in one language."""

    model: str
    task: str
    source: str
    target: str
    remove: str  # as tables name it: "none", "random 50", "layers top 3"
    share: float | None  # percent of the heads that are gone; None where it is not known
    value: float
    setting: str = ""
    epoch: int | None = None  # 1 for the weights after the first epoch; None for those of the trial
    trial: str = ""  # empty for a printed number
    kind: str = ""
    failed: bool = False  # its model has one label for everything in what it learnt

    @property
    def strategy(self) -> str:
        return self.remove.split(" ", 1)[0]

    @property
    def shape(self) -> tuple[str, int] | None:
        """A set of layers as (word, how many): `top 3` is ("top", 3), `top 3 + bottom 3` is ("ends", 6), `odd` ("odd", 0)."""
        parts = [
            PART.fullmatch(part.strip()) for part in self.remove.removeprefix("layers ").split("+")
        ]
        if self.strategy != "layers" or not all(parts):
            return None
        named = {part[1]: int(part[2] or 0) for part in parts if part}
        if len(parts) == 1:
            return next(iter(named.items()))
        if set(named) == {"top", "bottom"} and named["top"] == named["bottom"]:
            return "ends", 2 * named["top"]
        return None


@dataclass(frozen=True)
class Best:
    """The best trial of one arm of a search."""

    gain: float  # over the unpruned model
    k: float | None = None  # heads removed; None where it was not told
    scores: tuple[float, ...] = ()  # of all its trials
    tried: tuple[int, ...] = tuple(
        range(1, 13)
    )  # how many heads went in each of the trials it could choose from
    repeats: tuple[float, ...] = ()  # the gain of each seed, where it is the mean of several

    @property
    def budget(self) -> int:
        return len(self.tried)


@dataclass(frozen=True)
class Search(OfATask):
    """One lowest-k search and its controls, scored in one target language."""

    model: str
    task: str
    source: str
    target: str
    setting: str
    full: float
    arms: Mapping[str, Best]  # lowest, and of highest, random, seeds those that were run
    rank: str = ""  # the method heads were ranked by; empty where it was not told
    parts: int | None = None  # tenths of the target's training set
    train: str = ""
    trials: tuple[str, ...] = ()
    kind: str = ""

    @property
    def pair(self) -> tuple[str, ...]:
        return (
            self.model,
            self.task,
            self.source,
            self.target,
            self.setting,
            self.rank,
            str(self.parts),
            self.train,
        )


@dataclass(frozen=True)
class Merged(OfATask):
    """Several source languages to one target: the unpruned score and the best of each way to join their rankings."""

    model: str
    task: str
    train: str
    target: str
    full: float
    scores: Mapping[str, float]  # of MD, SD, EC
    trials: tuple[str, ...] = ()
    budget: int = 12  # trials of each search; EC has one search for each source
    kind: str = ""


@dataclass(frozen=True)
class Measured(OfATask):
    """What was measured on the heads of one model at one stage."""

    trial: str
    model: str
    task: str
    remove: str
    name: str  # entropy, weights, embeddings
    stage: str  # before, first, after
    values: Mapping[str, Any]
    removed: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Ranked(OfATask):
    """A ranking of all heads on one language (or several, joined by +)."""

    trial: str
    model: str
    task: str
    language: str
    method: str
    scores: Mapping[str, float]
    kind: str = ""


@dataclass(frozen=True)
class Rho:
    """Spearman's rho between the gains of pairs and something else about them."""

    model: str
    task: str
    setting: str
    against: str  # "uriel distance" or "ranking similarity"
    rho: float
    pairs: int
    p: float


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that is known."""

    facts: tuple[Fact, ...] = ()
    searches: tuple[Search, ...] = ()
    merged: tuple[Merged, ...] = ()
    measured: tuple[Measured, ...] = ()
    rankings: tuple[Ranked, ...] = ()
    rhos: tuple[Rho, ...] = ()  # where they were told and cannot be computed
    printed: bool = False  # by a paper

    @cached_property
    def pairs(self) -> tuple[Search, ...]:
        """The searches, those that only repeat another with a further seed folded into their mean."""
        groups: dict[tuple[str, ...], list[Search]] = {}
        for search in self.searches:
            groups.setdefault(search.pair, []).append(search)
        return tuple(_folded(group) for group in groups.values())

    def __add__(self, other: Evidence) -> Evidence:
        both = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("facts", "searches", "merged", "measured", "rankings", "rhos")
        }
        return Evidence(**both, printed=self.printed and other.printed)


def _folded(group: Sequence[Search]) -> Search:
    first = group[0]
    if len(group) == 1:
        return first
    names = [name for name in first.arms if all(name in search.arms for search in group)]
    arms = {name: _mean_best([search.arms[name] for search in group]) for name in names}
    trials = tuple(trial for search in group for trial in search.trials)
    return Search(
        first.model,
        first.task,
        first.source,
        first.target,
        first.setting,
        fmean(s.full for s in group),
        arms,
        first.rank,
        first.parts,
        first.train,
        trials,
        first.kind,
    )


def _mean_best(several: Sequence[Best]) -> Best:
    ks = [best.k for best in several if best.k is not None]
    scores = tuple(score for best in several for score in best.scores)
    gains = tuple(b.gain for b in several)
    return Best(
        fmean(gains),
        fmean(ks) if ks else None,
        scores,
        min((b.tried for b in several), key=len),
        gains,
    )


@dataclass(frozen=True)
class Mean:
    """The mean of the facts that only repeat one another."""

    facts: tuple[Fact, ...] = field(repr=False)

    @cached_property
    def value(self) -> float:
        return fmean(fact.value for fact in self.facts)

    @property
    def repeats(self) -> list[float]:
        return [fact.value for fact in self.facts]


def means(facts: Iterable[Fact], *axes: str) -> dict[Any, Mean]:
    """The facts by what these axes say of them; by one axis alone the key is its value."""
    groups: dict[Any, list[Fact]] = {}
    for fact in facts:
        key = tuple(getattr(fact, axis) for axis in axes)
        groups.setdefault(key if len(axes) > 1 else key[0], []).append(fact)
    return {key: Mean(tuple(group)) for key, group in groups.items()}
