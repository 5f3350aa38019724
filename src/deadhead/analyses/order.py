"""Is a < b < c? An order among group means, by how much it holds, and how often chance alone would do as well."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import DataError
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
        raise DataError(f"there is nothing to order: {', '.join(missing) or 'fewer than two groups'}.", "give each group some values")
    several = [np.asarray(groups[name], float) for name in order]
    means = {name: float(values.mean()) for name, values in zip(order, several, strict=True)}
    margin = min(b - a for a, b in itertools.pairwise(means.values()))
    pool, sizes = np.concatenate(several), [len(values) for values in several]
    ways = math.factorial(len(pool)) // math.prod(math.factorial(size) for size in sizes)
    if ways <= MOST:
        margins = np.array([_margin(pool, deal) for deal in _deals(list(range(len(pool))), sizes)])
        p, how = float((margins >= margin - SLACK).mean()), "exact"
    else:
        rng, ends = np.random.default_rng(seed), np.cumsum(sizes)[:-1]
        margins = np.array([_margin(pool, np.split(rng.permutation(len(pool)), ends)) for _ in range(DRAWS)])
        p, how = (int((margins >= margin - SLACK).sum()) + 1) / (DRAWS + 1), "draws"
    return Order(margin > 0, margin, p, means, len(pool), how)


def _margin(pool: np.ndarray, deal: Sequence[Sequence[int] | np.ndarray]) -> float:
    means = [float(pool[list(members)].mean()) for members in deal]
    return min(b - a for a, b in itertools.pairwise(means))


def _deals(members: list[int], sizes: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to put the members into groups of these sizes."""
    if len(sizes) == 1:
        yield [tuple(members)]
        return
    for chosen in itertools.combinations(members, sizes[0]):
        rest = [one for one in members if one not in chosen]
        yield from ([chosen, *others] for others in _deals(rest, sizes[1:]))
