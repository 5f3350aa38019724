"""What removing a head does to the score, from many trials that removed different heads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


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
            known = ~np.isnan(column)
            with np.errstate(invalid="ignore"):  # infinite scores have no difference
                differences, weight = _differences(column[known], removed[known])
            sums[:, i] += weight * differences
            weights[:, i] += weight
    return np.divide(sums, weights, out=np.full(shape, np.nan), where=weights > 0)


def _differences(scores: np.ndarray, removed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each head the difference and its weight; both are 0 for heads that all trials share."""
    number, count, sums = len(scores), removed.sum(axis=0), scores @ removed
    kept = number - count
    both = (count > 0) & (kept > 0)
    count, kept = count.clip(1), kept.clip(1)
    differences = both * (sums / count - (scores.sum() - sums) / kept)
    return differences, both * (count * kept / max(1, number))
