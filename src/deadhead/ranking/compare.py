"""How similar two orders are: Spearman's rho with its p-value, and the heads that both ends share.

For few numbers all orders are tried, so that p is exact; for more, orders are drawn with a fixed
seed; for many the t distribution is as good. `Correlation.how` says which.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from deadhead.errors import DataError

EXACT = 9  # numbers up to which all orders are tried: 9! = 362,880
DRAWN = 50  # and up to which orders are drawn
DRAWS = 100_000
SLACK = 1e-9  # two ways to add up the same numbers may differ by this much
Numbers = Sequence[float] | np.ndarray


class Correlation(NamedTuple):
    """Spearman's rho, its two-sided p-value, the number of pairs, and how p was computed."""

    rho: float
    p: float
    n: int
    how: str  # exact, draws or t


class Overlap(NamedTuple):
    """How many of the m highest and m lowest heads two rankings share."""

    m: int
    highest: int
    lowest: int
    by_chance: float  # shared by two unrelated rankings
    p_highest: float  # probability of sharing at least as many by chance
    p_lowest: float


def rho(one: Numbers, other: Numbers) -> float:
    """Spearman's rho: 1 for the same order, -1 for the reverse; ties get their mean rank.

    nan for fewer than three numbers, for numbers that are all equal, and where one is not finite.
    """
    sides = _sides(one, other)
    return math.nan if sides is None else float(np.clip(sides[0] @ sides[1], -1, 1))


def spearman(one: Numbers, other: Numbers, *, seed: int = 0, exact: bool = True) -> Correlation:
    """Spearman's rho with its p-value.

    exact: False computes p from the t distribution, however few the numbers.

    >>> spearman([1, 2, 3, 4], [1, 2, 4, 3])
    Correlation(rho=0.8, p=0.333..., n=4, how='exact')
    """
    sides, n = _sides(one, other), len(one)
    if sides is None:
        return Correlation(math.nan, math.nan, n, "exact")
    a, b = sides
    value = float(np.clip(a @ b, -1, 1))
    if exact and n <= EXACT:
        p = float((np.abs(b[_orders(n)] @ a) >= abs(value) - SLACK).mean())
        return Correlation(value, p, n, "exact")
    if exact and n <= DRAWN:
        parts = np.array_split(_some_orders(n, seed), 10)  # fewer numbers in memory at a time
        hits = sum(int((np.abs(b[orders] @ a) >= abs(value) - SLACK).sum()) for orders in parts)
        return Correlation(value, (hits + 1) / (DRAWS + 1), n, "draws")  # it is an order too
    from scipy.stats import t

    rest = max(1 - value * value, 1e-300)
    p = float(2 * t.sf(abs(value) * math.sqrt((n - 2) / rest), n - 2))
    return Correlation(value, p, n, "t")


def _sides(one: Numbers, other: Numbers) -> tuple[np.ndarray, np.ndarray] | None:
    """Both lists as standardised ranks; None where there is no correlation to compute."""
    x, y = np.asarray(one, float), np.asarray(other, float)
    if x.shape != y.shape or x.ndim != 1:
        message = f"lists of {x.size} and {y.size} numbers cannot be compared."
        raise DataError(message, "give two lists of the same length")
    finite = np.isfinite(x).all() and np.isfinite(y).all()
    if len(x) < 3 or not finite or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy.stats import rankdata

    return _standard(rankdata(x)), _standard(rankdata(y))


@lru_cache(maxsize=4)
def _some_orders(n: int, seed: int) -> np.ndarray:
    orders = np.tile(np.arange(n, dtype=np.int8), (DRAWS, 1))
    return np.random.default_rng(seed).permuted(orders, axis=1)


@cache
def _orders(n: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(n))), dtype=np.int8)


def _standard(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean()
    return np.asarray(centred / np.linalg.norm(centred))


def overlap(one: Mapping[Any, float], other: Mapping[Any, float], m: int = 12) -> Overlap:
    """How many of the m highest and m lowest heads are the same.

    Of heads with equal scores those that `one` lists first are chosen.
    """
    both = [head for head in one if head in other]
    if not 0 < m <= len(both):
        message = f"`m` expects 1 to {len(both)} heads, which both rankings have, got {m}."
        raise DataError(message, f"choose `m` from 1 to {len(both)}")
    from scipy.stats import hypergeom

    def ends(scores: Mapping[Any, float], sign: int) -> set[Any]:
        return set(
            sorted(both, key=lambda head: sign * scores[head])[:m]
        )  # stable: the first of equals

    highest, lowest = (len(ends(one, sign) & ends(other, sign)) for sign in (-1, 1))
    p_highest, p_lowest = (
        float(hypergeom.sf(shared - 1, len(both), m, m)) for shared in (highest, lowest)
    )
    return Overlap(
        m=m,
        highest=highest,
        lowest=lowest,
        by_chance=m * m / len(both),
        p_highest=p_highest,
        p_lowest=p_lowest,
    )
