"""Could it be chance? Spearman's rho with its p-value, the sign test, a test of two means, and corrections for many tests.

For few numbers every order is tried, so that p is exact; for more, orders are drawn with a fixed
seed; for very many the t distribution is as good. Which it was is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError

EXACT = 9  # numbers up to which all orders are tried: 9! = 362,880
DRAWN = 50  # and up to which orders are drawn
DRAWS = 100_000
SLACK = 1e-9  # two ways of adding up the same numbers may differ by so much


class Correlation(NamedTuple):
    """Spearman's rho, its two-sided p-value, of how many pairs of numbers, and how p was found."""

    rho: float
    p: float
    n: int
    how: str  # exact, draws or t


def spearman(
    one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray, *, seed: int = 0
) -> Correlation:
    """How alike two lists are ordered: 1 the same, -1 reversed. Equal numbers share the mean of their ranks.

    >>> spearman([1, 2, 3, 4], [1, 2, 4, 3])
    Correlation(rho=0.8, p=0.333..., n=4, how='exact')
    """
    x, y = np.asarray(one, float), np.asarray(other, float)
    if x.shape != y.shape or x.ndim != 1:
        raise DataError(
            f"lists of {x.size} and {y.size} numbers cannot be compared.",
            "give two lists of one length",
        )
    n = len(x)
    if (
        n < 3
        or not (np.isfinite(x).all() and np.isfinite(y).all())
        or np.ptp(x) == 0
        or np.ptp(y) == 0
    ):
        return Correlation(math.nan, math.nan, n, "exact")
    a, b = (_standard(_ranks(values)) for values in (x, y))
    rho = float(np.clip(a @ b, -1, 1))
    if n <= EXACT:
        p = float((np.abs(b[_orders(n)] @ a) >= abs(rho) - SLACK).mean())
        return Correlation(rho, p, n, "exact")
    if n <= DRAWN:
        return Correlation(rho, _drawn(a, b, rho, seed), n, "draws")
    from scipy.stats import t

    lost = max(1 - rho * rho, 1e-300)
    return Correlation(rho, float(2 * t.sf(abs(rho) * math.sqrt((n - 2) / lost), n - 2)), n, "t")


def _drawn(a: np.ndarray, b: np.ndarray, rho: float, seed: int) -> float:
    hits = sum(
        int((np.abs(b[orders] @ a) >= abs(rho) - SLACK).sum())
        for orders in np.array_split(_some_orders(len(a), seed), 10)
    )
    return (hits + 1) / (DRAWS + 1)  # the order that was met is one of them


@lru_cache(maxsize=4)
def _some_orders(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permuted(
        np.tile(np.arange(n, dtype=np.int8), (DRAWS, 1)), axis=1
    )


@cache
def _orders(n: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(n))), dtype=np.int8)


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _standard(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean()
    return np.asarray(centred / np.linalg.norm(centred))


def sign_test(up: int, down: int) -> float:
    """The chance that so uneven a count, either way, comes of throwing a coin; ties are not counted.

    >>> sign_test(8, 2)   # 2 (1 + 10 + 45) / 1024
    0.109375
    """
    n, least = up + down, min(up, down)
    ways = total = (
        1  # C(n, i), each out of the one before: of thousands of cases every comb by itself takes long
    )
    for i in range(least):
        ways = ways * (n - i) // (i + 1)
        total += ways
    return min(1.0, 2 * total / 2**n)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values made larger for there being many of them (Holm 1979); what is nan stays so and is no test.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if not math.isnan(p))
    found, largest = [math.nan] * len(ps), 0.0
    for place, (p, i) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - place) * p))
        found[i] = largest
    return found


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """p-values made larger so that those up to q have a false discovery rate of at most q (Benjamini and Hochberg 1995).

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if not math.isnan(p))
    found, least = [math.nan] * len(ps), 1.0
    for place, (p, i) in reversed(list(enumerate(tested, 1))):
        least = min(least, p * len(tested) / place)
        found[i] = least
    return found


def two_means(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value of the difference of two means: the larger of Student's and Welch's t-test.

    Student's is exact where both sides scatter alike, Welch's nearly so where they do not but are of one size; of few
    numbers each alone errs far too often in the other case. nan where a side has no repetition, or nothing scatters.
    """
    n, m = len(one), len(other)
    if n < 2 or m < 2:
        return math.nan
    a, b = _variance(one), _variance(other)
    if a + b <= SLACK**2:
        return math.nan
    from scipy.special import stdtr

    apart = abs(fmean(one) - fmean(other))
    pooled = ((n - 1) * a + (m - 1) * b) / (n + m - 2)
    student = 2 * stdtr(n + m - 2, -apart / math.sqrt(pooled * (1 / n + 1 / m)))
    freedom = (a / n + b / m) ** 2 / ((a / n) ** 2 / (n - 1) + (b / m) ** 2 / (m - 1))
    return float(max(student, 2 * stdtr(freedom, -apart / math.sqrt(a / n + b / m))))


def _variance(values: Sequence[float]) -> float:
    centre = fmean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
