"""What gains go with: Spearman's rho over pairs of languages, against their distance and the likeness of their rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import isnan

from deadhead.errors import DeadheadError
from deadhead.results import RankedHeads, Search
from deadhead.results.statistics import Correlation, with_distance, with_similarity
from deadhead.tasks.distances import distances

from .evidence import Evidence, Rho

FEWEST = 5  # pairs for a rho
SETTINGS = ("cross-lingual", "multi-lingual")
DISTANCE = "syntactic"  # of URIEL's; the paper does not say which it means
TASKS = ("pos", "ner", "slots")
Gain = tuple[str, str, float]


@cache
def rhos(evidence: Evidence) -> tuple[Rho, ...]:
    """Those the evidence tells, or those its searches and rankings give."""
    if evidence.rhos:
        return evidence.rhos
    groups: dict[tuple[str, str, str], list[Gain]] = {}
    for s in evidence.pairs:
        if _fits(s):
            groups.setdefault((s.model, s.task, s.setting), []).append(
                (s.source, s.target, s.arms["lowest"].gain)
            )
    found = []
    for (model, task, setting), gains in groups.items():
        alike = _alike(
            gains,
            {
                r.language: r
                for r in evidence.rankings
                if (r.model, r.task, r.method) == (model, task, "gradient")
            },
        )
        if alike is None:
            continue  # URIEL takes its time: only for who has rankings of these languages as well
        for against, told in (("uriel distance", _apart(gains)), ("ranking similarity", alike)):
            if told is not None and told.n >= FEWEST and not isnan(told.rho):
                found.append(
                    Rho(
                        model=model,
                        task=task,
                        setting=setting,
                        against=against,
                        rho=told.rho,
                        pairs=told.n,
                        p=told.p,
                    )
                )
    return tuple(found)


def _fits(s: Search) -> bool:
    """Whether a search is one of the paper's: one source, another target, all of its data, ranked by gradient."""
    plain = (
        s.parts is None
        and s.rank in ("", "gradient")
        and set(s.train.split("+")) - {""} <= {s.source, s.target}
    )
    return (
        plain
        and s.task in TASKS
        and s.setting in SETTINGS
        and s.source != s.target
        and "lowest" in s.arms
    )


def _apart(gains: Sequence[Gain]) -> Correlation | None:
    """Against URIEL's distance; None where it, or its package, is not there."""
    if len(gains) < FEWEST:
        return None
    try:
        return with_distance(gains, _distances)[DISTANCE]
    except DeadheadError:
        return None


def _distances(source: str, target: str) -> Mapping[str, float]:
    return distances(source, target, [DISTANCE])


def _alike(gains: Sequence[Gain], rankings: Mapping[str, RankedHeads]) -> Correlation | None:
    there = [gain for gain in gains if gain[0] in rankings and gain[1] in rankings]
    if len(there) < FEWEST:
        return None
    try:
        return with_similarity(there, {name: one.scores for name, one in rankings.items()})
    except DeadheadError:
        return None
