"""Do two languages rank heads alike, and does that, or their distance, go with the gains?

A ranking here is a score for each head (`{"encoder.0.3": 0.12, ...}`, as records keep it).
Distances are URIEL's, from 0 to 1: a rho above 0 says that pruning gains more between distant
languages. With similarities (1 - distance) every sign would be the opposite.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import nan

import numpy as np

from deadhead.errors import DataError
from deadhead.ranking.compare import Correlation, rho, spearman
from deadhead.tasks.distances import distances as uriel

HeadNumbers = Mapping[str, float]
Gain = tuple[str, str, float]  # source, target, gain of pruning
Distances = Callable[[str, str], Mapping[str, float]]
FEWEST = 3  # heads that two rankings must share


def ranking_rho(one: HeadNumbers, other: HeadNumbers) -> float:
    """Spearman's rho over the heads that both have scored; nan where it is not defined."""
    sides = _shared(one, other)
    return rho(*sides) if len(sides[0]) >= FEWEST else nan


def _shared(one: HeadNumbers, other: HeadNumbers) -> tuple[list[float], list[float]]:
    both = [head for head in one if head in other]
    return [one[head] for head in both], [other[head] for head in both]


def similarity(rankings: Mapping[str, HeadNumbers]) -> dict[tuple[str, str], Correlation]:
    """Spearman's rho of each ranking with each other, over the heads that both have scored."""
    correlations = {}
    for one, other in itertools.combinations(rankings, 2):
        sides = _shared(rankings[one], rankings[other])
        if len(sides[0]) < FEWEST:
            raise DataError(
                f"the rankings {one} and {other} have {len(sides[0])} heads in common; "
                f"a comparison needs {FEWEST}.",
                "rank models of the same shape",
            )
        correlations[one, other] = spearman(*sides)
    return correlations


def with_distance(
    gains: Sequence[Gain], distances: Distances | None = None
) -> dict[str, Correlation]:
    """Spearman's rho between the gains and the distance of source and target, by each distance.

    A pair whose distance is not known (nan) is left out of that distance's rho, whose n says so.
    `mean` uses the mean of the distances that are known for every pair.

    distances: gives the distances of two languages by name; URIEL's six by default.
    """
    between = distances or uriel
    rows = [between(source, target) for source, target, _ in gains]
    values = np.array([value for _, _, value in gains], float)
    names = rows[0] if rows else ()
    columns = {name: np.array([row[name] for row in rows], float) for name in names}
    correlations = {
        name: spearman(column[~np.isnan(column)], values[~np.isnan(column)])
        for name, column in columns.items()
    }
    complete = [column for column in columns.values() if not np.isnan(column).any()]
    if len(complete) > 1:
        correlations["mean"] = spearman(np.mean(complete, axis=0), values)
    return correlations


def with_similarity(gains: Sequence[Gain], rankings: Mapping[str, HeadNumbers]) -> Correlation:
    """Spearman's rho between the gains and how alike source and target rank the heads."""
    ranked = [
        gain for gain in gains if gain[0] in rankings and gain[1] in rankings and gain[0] != gain[1]
    ]
    rhos = similarity({name: rankings[name] for gain in ranked for name in gain[:2]})
    similarities = [(rhos.get(pair[:2]) or rhos[pair[1], pair[0]]).rho for pair in ranked]
    return spearman(similarities, [value for _, _, value in ranked])
