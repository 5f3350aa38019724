"""Arithmetic on scores: a layer scaled to unit length, all heads spread over 0 to 1, ranks.

Numbers per head in, numbers per head out; no model and no torch. Rankers finish with it, and
rankings of several languages are merged with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deadhead.layout import Head

TINY = 1e-20  # keeps a layer of zeros from dividing by zero, as in Ma et al.


def unit_layers(scores: Mapping[Head, float]) -> dict[Head, float]:
    """Each score divided by the L2 norm of its layer, so that no layer dominates for its scale alone."""
    squares: dict[tuple[str, int], float] = {}
    for head, score in scores.items():
        squares[head[:2]] = squares.get(head[:2], 0.0) + score * score
    return {head: score / (squares[head[:2]] ** 0.5 + TINY) for head, score in scores.items()}


def spread(scores: Mapping[Head, float]) -> dict[Head, float]:
    """Scores moved and stretched to reach from 0 to 1; all 0 where all are equal, all nan where one is not finite."""
    values = np.fromiter(scores.values(), float, len(scores))
    if not np.isfinite(values).all():
        return dict.fromkeys(scores, float("nan"))
    low, high = float(values.min()), float(values.max())
    return {
        head: (score - low) / (high - low) if high > low else 0.0 for head, score in scores.items()
    }


def normalised(raw: Mapping[Head, float]) -> dict[Head, float]:
    """What A-2 makes of accumulated gradients: unit layers, then 0 to 1 over all heads."""
    return spread(unit_layers(raw))


def ranks(scores: Mapping[Head, float]) -> dict[Head, float]:
    """The place of each head when sorted upwards, from 1; equal scores share the mean of their places."""
    values = np.array(list(scores.values()), dtype=float)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means = ends - (counts - 1) / 2
    return dict(zip(scores, means[inverse].tolist(), strict=True))


def total(several: Sequence[Mapping[Head, float]]) -> dict[Head, float]:
    """The sum over several, head by head."""
    return {head: float(sum(scores[head] for scores in several)) for head in several[0]}


def highest_of(several: Sequence[Mapping[Head, float]]) -> dict[Head, float]:
    """The largest of several, head by head."""
    return {head: max(scores[head] for scores in several) for head in several[0]}
