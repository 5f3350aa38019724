"""Is a < b < c? An order among group means, by how much it holds, and how often chance alone would do as well."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError

from .chance import SLACK

MOST = 200_000  # ways to deal the members out that are all tried; beyond, some are drawn
DRAWS = 20_000


class Order(NamedTuple):
    """Whether an order holds, by how much, and the chance of as much when members are dealt out to groups at random."""

    holds: bool
    margin: float  # the smallest step from one group mean to the next; below 0 where the order is broken
    p: float
    means: dict[str, float]
    n: int  # members
    how: str  # exact or draws


def ordered(groups: Mapping[str, Sequence[float]], order: Sequence[str], *, seed: int = 0) -> Order:
    """Whether the means of the groups rise in this order.

    p: of all ways to deal the same numbers out to groups of the same sizes, the share in which the smallest
    step is at least as large. With few members it cannot be small, however clear the order looks.

    >>> ordered({"a": [1.0, 2.0], "b": [4.0], "c": [5.0]}, ("a", "b", "c")).margin   # 1.5, 4, 5
    1.0
    """
    missing = [name for name in order if not len(groups.get(name, ()))]
    if missing or len(order) < 2:
        raise DataError(
            f"there is nothing to order: {', '.join(missing) or 'fewer than two groups'}.",
            "give each group some values",
        )
    several = [np.asarray(groups[name], float) for name in order]
    means = {name: float(values.mean()) for name, values in zip(order, several, strict=True)}
    margin = min(b - a for a, b in itertools.pairwise(means.values()))
    pool, sizes = np.concatenate(several), [len(values) for values in several]
    ways = math.factorial(len(pool)) // math.prod(math.factorial(size) for size in sizes)
    if ways <= MOST:
        deals = np.array(list(_deals(tuple(range(len(pool))), sizes)))
        p, how = float((_margins(pool[deals], sizes) >= margin - SLACK).mean()), "exact"
    else:
        drawn = np.random.default_rng(seed).permuted(np.tile(pool, (DRAWS, 1)), axis=1)
        p, how = (int((_margins(drawn, sizes) >= margin - SLACK).sum()) + 1) / (DRAWS + 1), "draws"
    return Order(margin > 0, margin, p, means, len(pool), how)


def _margins(dealt: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The smallest step of each deal: rows of numbers, those of the first group first."""
    means = np.stack(
        [part.mean(1) for part in np.split(dealt, np.cumsum(sizes)[:-1], axis=1)], axis=1
    )
    return np.asarray(np.diff(means, axis=1).min(1))


def _deals(members: tuple[int, ...], sizes: list[int]) -> Iterator[tuple[int, ...]]:
    """All ways to put the members into groups of these sizes, one group after the other."""
    if len(sizes) == 1:
        yield members
        return
    for chosen in itertools.combinations(members, sizes[0]):
        rest = tuple(one for one in members if one not in chosen)
        yield from (chosen + others for others in _deals(rest, sizes[1:]))
