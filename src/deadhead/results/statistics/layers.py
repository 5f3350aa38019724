"""Numbers per head, seen by layer: where weights change and attention spreads.

Heads go by their printed names, `encoder.0.3`, as measures and rankings keep them; layers count from 0 at
the input. Pruned heads have no number and are left out of every mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from deadhead.errors import DataError
from deadhead.layout import Head

from .chance import Correlation, spearman

LIMIT = 0.10  # by how much the papers let the means of layers differ
THIRDS = ("bottom", "middle", "top")
Layer = tuple[str, int]  # block and number


def layer_means(values: Mapping[str, float]) -> dict[Layer, float]:
    """The mean over the heads of each layer that has some left.

    >>> layer_means({"encoder.0.0": 1.0, "encoder.0.5": 3.0, "encoder.2.1": 4.0})
    {('encoder', 0): 2.0, ('encoder', 2): 4.0}
    """
    found: dict[Layer, list[float]] = {}
    for name, value in values.items():
        head = Head.parse(name)
        found.setdefault((head.block, head.layer), []).append(value)
    blocks = list(dict.fromkeys(block for block, _ in found))
    return {
        layer: float(np.mean(found[layer]))
        for layer in sorted(found, key=lambda one: (blocks.index(one[0]), one[1]))
    }


class Even(NamedTuple):
    """Whether the means of the layers differ by less than the limit, and by how much the extremes do."""

    holds: bool
    gap: float  # (largest - smallest) / largest
    means: dict[Layer, float]


def even(values: Mapping[str, float], limit: float = LIMIT) -> Even:
    """Do all layers change about equally? The 10 % test: (max - min) / max over the means of layers.

    >>> even({"encoder.0.0": 0.95, "encoder.1.0": 1.0}).gap
    0.05
    """
    means = layer_means(values)
    if len(means) < 2 or max(means.values()) <= 0:
        raise DataError(
            "there are no two layers with a change to compare.", "measure a model after training"
        )
    gap = (max(means.values()) - min(means.values())) / max(means.values())
    return Even(gap < limit, gap, means)


def by_layer(values: Mapping[str, float]) -> Correlation:
    """Spearman's rho between the number of a layer and its mean: above 0 where it grows towards the output."""
    means = layer_means(values)
    return spearman([layer for _, layer in means], list(means.values()))


def by_distance(values: Mapping[str, float], removed: Iterable[str]) -> Correlation:
    """Spearman's rho between the mean of a layer and how many layers it is from the nearest layer that lost all heads."""
    means = layer_means(values)
    gone = {(head.block, head.layer) for head in map(Head.parse, removed)} - means.keys()
    apart = {
        (block, layer): min(abs(layer - other) for name, other in gone if name == block)
        for block, layer in means
        if any(name == block for name, _ in gone)
    }
    return spearman(list(apart.values()), [means[layer] for layer in apart])


def third(layer: int, layers: int) -> str:
    """The part of the model a layer is in: bottom, middle or top; 12 layers are 0-3, 4-7 and 8-11.

    >>> [third(layer, 5) for layer in range(5)]
    ['bottom', 'bottom', 'middle', 'middle', 'top']
    """
    if not 0 <= layer < layers:
        raise DataError(
            f"there is no layer {layer} among {layers}.",
            f"layers are counted from 0 to {layers - 1}",
        )
    return THIRDS[3 * layer // layers]


def entropy_change(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    layers: int | None = None,
    signed: bool = False,
) -> dict[str, float]:
    """The mean change of attention entropy in the bottom, middle and top third, over heads that are in both.

    layers: of each block of the model, if the uppermost may have lost all heads. signed: after - before, not its size.

    >>> entropy_change({"encoder.0.0": 2.0, "encoder.2.0": 1.0}, {"encoder.0.0": 1.5, "encoder.2.0": 1.1})
    {'bottom': 0.5, 'top': 0.1}
    """
    depth = layers or 1 + max((Head.parse(name).layer for name in before), default=0)
    found: dict[str, list[float]] = {name: [] for name in THIRDS}
    for name in before:
        if name in after:
            moved = after[name] - before[name]
            found[third(Head.parse(name).layer, depth)].append(moved if signed else abs(moved))
    return {name: float(np.mean(several)) for name, several in found.items() if several}


def head_rows(values: Mapping[str, float]) -> list[dict[str, Any]]:
    """For a map of layers and heads."""
    return [{**Head.parse(name)._asdict(), "value": value} for name, value in values.items()]


def layer_rows(values: Mapping[str, float]) -> list[dict[str, Any]]:
    """For a line over layers."""
    return [
        {"block": block, "layer": layer, "value": value}
        for (block, layer), value in layer_means(values).items()
    ]


def points_rows(stages: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For a map of sentences, out of the measures of a record: {stage: {"embeddings": {"points": ...}}}."""
    return [
        {"stage": stage, "language": language, "x": x, "y": y}
        for stage, measures in stages.items()
        for language, points in (measures.get("embeddings") or {}).get("points", {}).items()
        for x, y in points
    ]
