"""Numbers per head, by layer: where weights change and attention spreads.

Heads have their printed names, `encoder.0.3`, as in measures and rankings; layers count from 0 at
the input. Pruned heads have no number and are left out of every mean.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError
from deadhead.layout import Head, LayerKey
from deadhead.ranking.compare import Correlation, spearman

LIMIT = 0.10  # how far the papers let the means of layers differ
THIRDS = ("bottom", "middle", "top")


def layer_means(values: Mapping[str, float]) -> dict[LayerKey, float]:
    """The mean over the remaining heads of each layer.

    >>> layer_means({"encoder.0.0": 1.0, "encoder.0.5": 3.0, "encoder.2.1": 4.0})
    {('encoder', 0): 2.0, ('encoder', 2): 4.0}
    """
    layers: dict[LayerKey, list[float]] = {}
    for name, value in values.items():
        head = Head.parse(name)
        layers.setdefault((head.block, head.layer), []).append(value)
    blocks = list(dict.fromkeys(block for block, _ in layers))
    ordered = sorted(layers, key=lambda layer: (blocks.index(layer[0]), layer[1]))
    return {layer: float(np.mean(layers[layer])) for layer in ordered}


class Evenness(NamedTuple):
    """Whether the means of the layers differ by less than the limit, and by how much they do."""

    holds: bool
    gap: float  # (largest - smallest) / largest
    means: dict[LayerKey, float]


def evenness(values: Mapping[str, float], limit: float = LIMIT) -> Evenness:
    """Do all layers change about equally? The 10 % test: (max - min) / max over layer means.

    >>> evenness({"encoder.0.0": 0.95, "encoder.1.0": 1.0}).gap
    0.05
    """
    means = layer_means(values)
    if len(means) < 2 or max(means.values()) <= 0:
        raise DataError(
            "there are no two layers with a change to compare.", "measure a model after training"
        )
    gap = (max(means.values()) - min(means.values())) / max(means.values())
    return Evenness(gap < limit, gap, means)


def by_layer(values: Mapping[str, float]) -> Correlation:
    """Spearman's rho between the number of a layer and its mean.

    Above 0 where the values grow towards the output.
    """
    means = layer_means(values)
    return spearman([layer for _, layer in means], list(means.values()))


def by_distance(values: Mapping[str, float], removed: Iterable[str]) -> Correlation:
    """Spearman's rho between a layer's mean and its distance to the nearest empty layer."""
    means = layer_means(values)
    empty = {(head.block, head.layer) for head in map(Head.parse, removed)} - means.keys()
    distances = {
        (block, layer): min(abs(layer - other) for name, other in empty if name == block)
        for block, layer in means
        if any(name == block for name, _ in empty)
    }
    return spearman(list(distances.values()), [means[layer] for layer in distances])


def third_of_layers(layer: int, layers: int) -> str:
    """The third that a layer is in: bottom, middle or top; 12 layers are 0-3, 4-7 and 8-11.

    >>> [third_of_layers(layer, 5) for layer in range(5)]
    ['bottom', 'bottom', 'middle', 'middle', 'top']
    """
    if not 0 <= layer < layers:
        raise DataError(
            f"there is no layer {layer} among {layers}.",
            f"layers are counted from 0 to {layers - 1}",
        )
    return THIRDS[3 * layer // layers]


def head_changes(
    before: Mapping[str, float | None], after: Mapping[str, float | None]
) -> dict[str, float]:
    """How far the number of each head moved, for heads that have one on both sides."""
    numbers = ((name, value, after.get(name)) for name, value in before.items())
    return {n: abs(new - old) for n, old, new in numbers if old is not None and new is not None}


def entropy_change(
    before: Mapping[str, float], after: Mapping[str, float], *, layers: int | None = None
) -> dict[str, float]:
    """The mean change of attention entropy in each third, over heads that are in both.

    layers: of each block of the model; give it if the uppermost may have no heads left.

    >>> before = {"encoder.0.0": 2.0, "encoder.2.0": 1.0}
    >>> entropy_change(before, {"encoder.0.0": 1.5, "encoder.2.0": 1.1})
    {'bottom': 0.5, 'top': 0.1}
    """
    depth = layers or 1 + max((Head.parse(name).layer for name in before), default=0)
    changes: dict[str, list[float]] = {name: [] for name in THIRDS}
    for name, change in head_changes(before, after).items():
        changes[third_of_layers(Head.parse(name).layer, depth)].append(change)
    return {third: float(np.mean(values)) for third, values in changes.items() if values}


def removal_effects(
    groups: Iterable[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]
) -> np.ndarray:
    """Mean score of the trials that removed a head minus that of the trials that kept it.

    Trials are compared within their group only (same task, same amount): otherwise every head
    would look harmful, because trials that remove much remove it more often. A group counts by how
    evenly it is divided, as in a stratified comparison.

    groups: trials x languages of scores (nan where there is none), and trials x heads of 0 and 1
    for removed. shape: heads and languages of the result, which is nan where no group compares.
    """
    sums, weights = np.zeros(shape), np.zeros(shape)
    for scores, removed in groups:
        for i, column in enumerate(scores.T):
            scored = ~np.isnan(column)
            values, cut = column[scored], removed[scored]
            number, kept = cut.sum(axis=0), len(values) - cut.sum(axis=0)
            both = (number > 0) & (kept > 0)  # else all trials share the head
            number, kept = number.clip(1), kept.clip(1)
            weight = both * (number * kept / max(1, len(values)))
            with np.errstate(invalid="ignore"):  # infinite scores have no difference
                without = values @ cut  # sums of the trials that removed a head
                difference = without / number - (values.sum() - without) / kept
                sums[:, i] += weight * (both * difference)
            weights[:, i] += weight
    return np.divide(sums, weights, out=np.full(shape, np.nan), where=weights > 0)
