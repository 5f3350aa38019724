"""Arithmetic on scores: scale a layer to unit length, spread all heads over 0 to 1.

Numbers per head in, numbers per head out; no model and no torch. Rankers scale their scores with
it, and rankings of different languages are merged with it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deadhead.layout import Head, HeadLayout, LayerKey

TINY = 1e-20  # keeps a layer of zeros from dividing by zero, as in Ma et al.


def unit_layers(scores: Mapping[Head, float]) -> dict[Head, float]:
    """Each score divided by the L2 norm of its layer, so that no layer dominates by its scale."""
    squares: dict[LayerKey, float] = {}
    for head, score in scores.items():
        squares[head[:2]] = squares.get(head[:2], 0.0) + score * score
    return {head: score / (squares[head[:2]] ** 0.5 + TINY) for head, score in scores.items()}


def spread(scores: Mapping[Head, float]) -> dict[Head, float]:
    """Scores stretched to reach from 0 to 1.

    All 0 where all are equal, all nan where one is not finite.
    """
    values = np.fromiter(scores.values(), float, len(scores))
    if not np.isfinite(values).all():
        return dict.fromkeys(scores, float("nan"))
    low, high = float(values.min()), float(values.max())
    if high == low:
        return dict.fromkeys(scores, 0.0)
    return {head: (score - low) / (high - low) for head, score in scores.items()}


def normalised(raw: Mapping[Head, float]) -> dict[Head, float]:
    """Accumulated gradients scaled as Ma et al. do: unit layers, then 0 to 1 over all heads."""
    return spread(unit_layers(raw))


def matrix(scores: Mapping[Head, float], layout: HeadLayout, block: str) -> np.ndarray:
    """The scores of a block as layers x heads, nan for heads without a score."""
    table = np.full((layout.layers(block), layout.size(block)), np.nan)
    for row, attention in enumerate(layout.of(block)):
        for head in attention.heads:
            table[row, head.index] = scores.get(head, np.nan)
    return table


def total(rows: Sequence[Mapping[Head, float]]) -> dict[Head, float]:
    """The sum over all rows, head by head."""
    return {head: float(sum(scores[head] for scores in rows)) for head in rows[0]}
