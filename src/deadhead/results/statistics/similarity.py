"""Are the heads of two languages ranked alike, and does it, or the distance of the languages, go with what pruning gains?

A ranking here is a score for each head (`{"encoder.0.3": 0.12, ...}`, as records keep it). Distances are
URIEL's, from 0 for alike to 1 for far apart: a rho above 0 says that pruning gains more between
languages that are far apart. With similarities (1 - distance) every sign would be the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.distances import distances as uriel

from .chance import Correlation, holm, spearman

Scores = Mapping[str, float]
Gain = tuple[str, str, float]  # source, target, what pruning gained
Distances = Callable[[str, str], Mapping[str, float]]


class Overlap(NamedTuple):
    """How many of the m highest, and of the m lowest, heads two rankings share, and the chance of at least as many."""

    m: int
    highest: int
    lowest: int
    by_chance: float  # how many two rankings that know nothing of each other would share
    p_highest: float
    p_lowest: float


def similarity(rankings: Mapping[str, Scores]) -> dict[tuple[str, str], Correlation]:
    """Spearman's rho of each ranking with each other, over the heads that both have scored."""
    found = {}
    for one, other in itertools.combinations(rankings, 2):
        both = [head for head in rankings[one] if head in rankings[other]]
        if len(both) < 3:
            raise DataError(
                f"the rankings {one} and {other} have {len(both)} heads in common; a comparison needs 3.",
                "rank models of one shape",
            )
        found[one, other] = spearman(
            [rankings[one][head] for head in both], [rankings[other][head] for head in both]
        )
    return found


def overlap(one: Scores, other: Scores, m: int = 12) -> Overlap:
    """How many of the m highest and of the m lowest heads are the same; among equal scores those listed first."""
    both = [head for head in one if head in other]
    if not 0 < m <= len(both):
        raise DataError(
            f"the overlap of {m} heads was asked for, but {len(both)} are in both rankings.",
            f"ask for 1 to {len(both)}",
        )
    shared = [
        len({*_first(one, both, m, sign)} & {*_first(other, both, m, sign)}) for sign in (-1, 1)
    ]
    from scipy.stats import hypergeom

    ps = [float(hypergeom.sf(count - 1, len(both), m, m)) for count in shared]
    return Overlap(m, shared[0], shared[1], m * m / len(both), ps[0], ps[1])


def _first(scores: Scores, heads: Sequence[str], m: int, sign: int) -> list[str]:
    return sorted(heads, key=lambda head: sign * scores[head])[
        :m
    ]  # stable: of equals the first listed


def with_distance(
    gains: Sequence[Gain], distances: Distances | None = None
) -> dict[str, Correlation]:
    """Spearman's rho between what pruning gains and how far source and target are apart, by each distance.

    A pair whose distance is not known (nan) is left out of that distance's rho, which says of how many it is. `mean`
    is by the mean of those distances that are known for every pair.

    distances: gives the distances of two languages by name; URIEL's six if left out (for URIEL+: `partial(distances, database="uriel+")`).
    """
    between = distances or uriel
    apart = [between(source, target) for source, target, _ in gains]
    values = np.array([value for _, _, value in gains], float)
    columns = {
        name: np.array([one[name] for one in apart], float) for name in (apart[0] if apart else ())
    }
    found = {
        name: spearman(column[~np.isnan(column)], values[~np.isnan(column)])
        for name, column in columns.items()
    }
    whole = [column for column in columns.values() if not np.isnan(column).any()]
    if len(whole) > 1:
        found["mean"] = spearman(np.mean(whole, axis=0), values)
    return found


def with_similarity(gains: Sequence[Gain], rankings: Mapping[str, Scores]) -> Correlation:
    """Spearman's rho between what pruning gains and how alike the heads of source and target are ranked."""
    there = [
        gain for gain in gains if gain[0] in rankings and gain[1] in rankings and gain[0] != gain[1]
    ]
    wanted = {name: rankings[name] for gain in there for name in gain[:2]}
    rhos = similarity(wanted)
    alike = [
        (rhos.get((source, target)) or rhos[target, source]).rho for source, target, _ in there
    ]
    return spearman(alike, [value for _, _, value in there])


def similarity_rows(rankings: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """For a heat map of languages with languages: both halves, and 1 on the diagonal."""
    found = similarity(rankings)
    adjusted = dict(zip(found, holm([one.p for one in found.values()]), strict=True))
    rows = []
    for one, other in itertools.product(rankings, rankings):
        key = (one, other) if (one, other) in found else (other, one)
        told = found.get(key, Correlation(1.0, 0.0, len(rankings[one]), "exact"))
        rows.append(
            {
                "one": one,
                "other": other,
                "rho": told.rho,
                "p": told.p,
                "p_holm": adjusted.get(key, 0.0),
                "heads": told.n,
            }
        )
    return rows


def correlation_rows(found: Mapping[str, Correlation]) -> list[dict[str, Any]]:
    """For a table of correlations, with p-values corrected for their number."""
    adjusted = holm([one.p for one in found.values()])
    return [
        {"with": name, **one._asdict(), "p_holm": p}
        for (name, one), p in zip(found.items(), adjusted, strict=True)
    ]
