"""What gains go with: Spearman's rho with the distance of languages and similarity of rankings."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isnan

from deadhead.errors import DeadheadError
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
    for s in single(evidence):
        if s.task in TASKS.values() and s.setting in (CROSS, MULTI):
            gain = (s.source, s.target, s.gain())
            groups.setdefault((s.model, s.task, s.setting), []).append(gain)
    rows = []
    for (model, task, setting), gains in groups.items():
        place = (model, task, "gradient")
        known = [r for r in evidence.rankings if (r.model, r.task, r.method) == place]
        similarity = _with_similarity(gains, {r.language: r.scores for r in known})
        if similarity is None:
            continue  # URIEL is slow: only for those who have rankings of these languages as well
        correlations = {"uriel distance": _with_distance(gains), "ranking similarity": similarity}
        for against, one in correlations.items():
            if one is not None and one.n >= FEWEST and not isnan(one.rho):
                where = {"model": model, "task": task, "setting": setting, "against": against}
                rows.append(Rho(**where, rho=one.rho, pairs=one.n, p=one.p))
    return tuple(rows)


def _with_distance(gains: Sequence[Gain]) -> Correlation | None:
    """None if URIEL, or its package, is not there."""
    with suppress(DeadheadError):
        if len(gains) >= FEWEST:
            return with_distance(gains, lambda a, b: distances(a, b, [DISTANCE]))[DISTANCE]
    return None


def _with_similarity(
    gains: Sequence[Gain], rankings: Mapping[str, Mapping[str, float]]
) -> Correlation | None:
    ranked = [gain for gain in gains if gain[0] in rankings and gain[1] in rankings]
    with suppress(DeadheadError):
        if len(ranked) >= FEWEST:
            return with_similarity(ranked, rankings)
    return None
