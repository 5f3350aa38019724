"""What gains go with: Spearman's rho with the distance of languages and similarity of rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import isnan

from deadhead.errors import DeadheadError
from deadhead.results import RankedHeads, Search
from deadhead.results.statistics import Correlation, with_distance, with_similarity
from deadhead.tasks.distances import distances

from .evidence import Evidence, Rho
from .searches import CROSS, MULTI, TASKS, single

FEWEST = 5  # pairs for a rho
DISTANCE = "syntactic"  # one of URIEL's; the paper does not say which it means
Gain = tuple[str, str, float]


@cache
def rhos(evidence: Evidence) -> tuple[Rho, ...]:
    """Those that the evidence states, or those that its searches and rankings give."""
    if evidence.rhos:
        return evidence.rhos
    groups: dict[tuple[str, str, str], list[Gain]] = {}
    for s in filter(_fits, single(evidence)):
        gain = (s.source, s.target, s.arms["lowest"].gain)
        groups.setdefault((s.model, s.task, s.setting), []).append(gain)
    rows = []
    for (model, task, setting), gains in groups.items():
        place = (model, task, "gradient")
        rankings = {
            r.language: r for r in evidence.rankings if (r.model, r.task, r.method) == place
        }
        similarity = _with_similarity(gains, rankings)
        if similarity is None:
            continue  # URIEL is slow: only for those who have rankings of these languages as well
        correlations = {"uriel distance": _with_distance(gains), "ranking similarity": similarity}
        for against, one in correlations.items():
            if one is not None and one.n >= FEWEST and not isnan(one.rho):
                where = {"model": model, "task": task, "setting": setting, "against": against}
                rows.append(Rho(**where, rho=one.rho, pairs=one.n, p=one.p))
    return tuple(rows)


def _fits(search: Search) -> bool:
    """Whether a search is on a task and in a setting of the paper, into another language."""
    another = search.source != search.target
    return another and search.task in TASKS.values() and search.setting in (CROSS, MULTI)


def _with_distance(gains: Sequence[Gain]) -> Correlation | None:
    """None if URIEL, or its package, is not there."""
    if len(gains) < FEWEST:
        return None
    try:
        return with_distance(gains, _distances)[DISTANCE]
    except DeadheadError:
        return None


def _distances(source: str, target: str) -> Mapping[str, float]:
    return distances(source, target, [DISTANCE])


def _with_similarity(
    gains: Sequence[Gain], rankings: Mapping[str, RankedHeads]
) -> Correlation | None:
    ranked = [gain for gain in gains if gain[0] in rankings and gain[1] in rankings]
    if len(ranked) < FEWEST:
        return None
    try:
        return with_similarity(ranked, {name: one.scores for name, one in rankings.items()})
    except DeadheadError:
        return None
