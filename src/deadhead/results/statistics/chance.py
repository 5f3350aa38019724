"""Could it be chance? The sign test, a test of two means, and corrections for many tests."""

import math
from collections.abc import Sequence
from statistics import fmean

SLACK = 1e-9  # two ways to add up the same numbers may differ by this much


def sign_test(up: int, down: int) -> float:
    """The probability that a fair coin gives a count this uneven, either way; ties do not count.

    >>> sign_test(8, 2)   # 2 (1 + 10 + 45) / 1024
    0.109375
    """
    n, least = up + down, min(up, down)
    ways = total = 1  # C(n, i), each from the one before: math.comb is slow for thousands of cases
    for i in range(least):
        ways = ways * (n - i) // (i + 1)
        total += ways
    return min(1.0, 2 * total / 2**n)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979); nan stays nan and is no test.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if not math.isnan(p))
    corrected, largest = [math.nan] * len(ps), 0.0
    for position, (p, i) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - position) * p))
        corrected[i] = largest
    return corrected


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """p-values corrected so that those up to q have a false discovery rate of at most q.

    Benjamini and Hochberg 1995; nan stays nan and is no test.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if not math.isnan(p))
    corrected, least = [math.nan] * len(ps), 1.0
    for position, (p, i) in reversed(list(enumerate(tested, 1))):
        least = min(least, p * len(tested) / position)
        corrected[i] = least
    return corrected


def two_means(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value of a difference of means: the larger of Student's and Welch's t-test.

    Student's is exact where both sides have the same variance, Welch's nearly so where they have
    not but are of one size; with few numbers each alone errs far too often in the other case. nan
    where a side has no repetition, or nothing varies.
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


def deviation(numbers: Sequence[float]) -> float:
    """The standard deviation of a sample of two or more.

    >>> deviation([79.0, 80.0, 81.0])
    1.0
    """
    return math.sqrt(_variance(numbers))


def _variance(numbers: Sequence[float]) -> float:
    centre = fmean(numbers)
    return math.fsum([(number - centre) ** 2 for number in numbers]) / (len(numbers) - 1)
