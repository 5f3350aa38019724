"""Is a < b < c? An order among group means, its margin, and how often chance alone does as well."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError

from .chance import SLACK

MOST = 200_000  # ways to divide the members that are all tried; beyond, some are drawn
DRAWS = 20_000


class Order(NamedTuple):
    """Whether an order holds, its margin, and the probability of such a margin by chance."""

    holds: bool
    margin: float  # smallest step from one group mean to the next; below 0 if the order is broken
    p: float
    means: dict[str, float]
    n: int  # members
    how: str  # exact or draws


def ordered(groups: Mapping[str, Sequence[float]], order: Sequence[str], *, seed: int = 0) -> Order:
    """Whether the means of the groups rise in this order.

    p: of all ways to divide the same numbers into groups of the same sizes, the share in which the
    smallest step is at least as large. With few members it cannot be small, however clear the
    order looks.

    >>> ordered({"a": [1.0, 2.0], "b": [4.0], "c": [5.0]}, ("a", "b", "c")).margin   # 1.5, 4, 5
    1.0
    """
    missing = [name for name in order if not len(groups.get(name, ()))]
    if missing or len(order) < 2:
        raise DataError(
            f"there is nothing to order: {', '.join(missing) or 'fewer than two groups'}.",
            "give each group some values",
        )
    members = [np.asarray(groups[name], float) for name in order]
    means = {name: float(values.mean()) for name, values in zip(order, members, strict=True)}
    margin = min(b - a for a, b in itertools.pairwise(means.values()))
    pool, sizes = np.concatenate(members), [len(values) for values in members]
    ways = math.factorial(len(pool)) // math.prod(math.factorial(size) for size in sizes)
    if ways <= MOST:
        divisions = np.array(list(_divisions(tuple(range(len(pool))), sizes)))
        p = float((_margins(pool[divisions], sizes) >= margin - SLACK).mean())
        how = "exact"
    else:
        drawn = np.random.default_rng(seed).permuted(np.tile(pool, (DRAWS, 1)), axis=1)
        p = (int((_margins(drawn, sizes) >= margin - SLACK).sum()) + 1) / (DRAWS + 1)
        how = "draws"
    return Order(holds=margin > 0, margin=margin, p=p, means=means, n=len(pool), how=how)


def _margins(rows: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The smallest step of each row; a row has the numbers of the first group first."""
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    means = np.stack([part.mean(1) for part in parts], axis=1)
    return np.asarray(np.diff(means, axis=1).min(1))


def _divisions(members: tuple[int, ...], sizes: list[int]) -> Iterator[tuple[int, ...]]:
    """All ways to put the members into groups of these sizes, one group after the other."""
    if len(sizes) == 1:
        yield members
        return
    for chosen in itertools.combinations(members, sizes[0]):
        rest = tuple(member for member in members if member not in chosen)
        yield from (chosen + others for others in _divisions(rest, sizes[1:]))
