"""Correlations and tests against numbers worked out by hand, and against scipy where it has the same number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from deadhead.errors import DataError
from deadhead.results.statistics import benjamini_hochberg, holm, sign_test, spearman, two_means


def test_spearman_by_hand() -> None:
    """Ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 (0 + 0 + 1 + 1) / (4 * 15) = 0.8.

    Of the 24 orders, |rho| >= 0.8 for the sum of squares 0, 2 (1 - 0.2 = 0.8), 18 and 20: 1 + 3 + 3 + 1 = 8 orders, so p = 8/24.
    """
    found = spearman([10, 20, 30, 40], [1, 2, 9, 3])
    assert found.rho == pytest.approx(0.8)
    assert found.p == pytest.approx(8 / 24)
    assert (found.n, found.how) == (4, "exact")


def test_spearman_with_ties_by_hand() -> None:
    """Ranks of (1, 1, 2) are 1.5 1.5 3, of (1, 2, 3) are 1 2 3; centred -.5 -.5 1 and -1 0 1.

    rho = (0.5 + 0 + 1) / sqrt(1.5 * 2) = 1.5 / sqrt 3. The 6 orders give 1.5, 1.5, 0, 0, -1.5, -1.5 above: p = 4/6.
    """
    found = spearman([1, 1, 2], [1, 2, 3])
    assert found.rho == pytest.approx(1.5 / math.sqrt(3))
    assert found.p == pytest.approx(4 / 6)


@pytest.mark.parametrize("n", [5, 8, 24, 144])
def test_spearman_against_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(0, 6, n).astype(float)  # many ties
    y = x + rng.normal(0, 4, n)
    mine, theirs = spearman(x, y), stats.spearmanr(x, y)
    assert mine.rho == pytest.approx(theirs.statistic)
    if n == 144:
        assert mine.how == "t"
        assert mine.p == pytest.approx(theirs.pvalue)
    else:

        def statistic(order: np.ndarray) -> float:
            return float(stats.spearmanr(order, y).statistic)

        resamples = np.inf if n == 5 else 600
        other = stats.permutation_test(
            (x,), statistic, permutation_type="pairings", n_resamples=resamples, rng=0
        )
        assert mine.p == pytest.approx(other.pvalue, abs=1e-9 if n == 5 else 0.07)


def test_the_papers_p_values_are_impossible() -> None:
    """With 24 pairs a rho of 0.34 has a p near 0.10, and only |rho| above about 0.5 is below 0.01."""
    x = np.arange(24.0)
    rng = np.random.default_rng(3)
    found = [spearman(x, rng.permutation(24)) for _ in range(12)]
    assert all((abs(one.rho) > 0.5) == (one.p < 0.011) for one in found)
    assert all(one.how == "draws" for one in found)
    assert spearman(x, x).p == pytest.approx(1 / 100_001)
    assert (
        spearman(x, found[0].rho * x).p == spearman(x, found[0].rho * x).p
    )  # drawn the same again


def test_nothing_to_correlate() -> None:
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]).rho)
    assert math.isnan(spearman([1, 2], [1, 2]).p)
    assert math.isnan(spearman([1, 2, math.nan], [1, 2, 3]).p)
    with pytest.raises(DataError):
        spearman([1, 2, 3], [1, 2])


def test_sign_test_by_hand() -> None:
    """8 up, 2 down: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 = 2 * 56 / 1024."""
    assert sign_test(8, 2) == sign_test(2, 8) == pytest.approx(112 / 1024)
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 0) == 1.0
    for up, down in ((88, 8), (31, 3), (3, 4)):
        assert sign_test(up, down) == pytest.approx(stats.binomtest(up, up + down).pvalue)


def test_holm_by_hand() -> None:
    """Sorted 0.01 0.03 0.04, times 3, 2, 1: 0.03 0.06 0.04, and none below the one before: 0.03 0.06 0.06."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    with_nan = holm([0.02, math.nan, 0.5])  # two tests, not three
    assert with_nan[0] == pytest.approx(0.04)
    assert math.isnan(with_nan[1])
    assert holm([]) == []


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert benjamini_hochberg([0.9, 0.02]) == pytest.approx([0.9, 0.04])
    with_nan = benjamini_hochberg([0.02, math.nan, 0.5])  # two tests, not three
    assert with_nan[0] == pytest.approx(0.04)
    assert math.isnan(with_nan[1])
    assert benjamini_hochberg([]) == []


@pytest.mark.parametrize(
    ("one", "other"), [([1.0, 2.0, 4.0], [5.0, 7.0, 8.0]), ([1.0, 9.0], [4.0, 4.1, 4.2, 4.3, 4.4])]
)
def test_two_means_is_the_larger_of_two_t_tests(one: list[float], other: list[float]) -> None:
    from scipy.stats import ttest_ind

    larger = max(ttest_ind(one, other, equal_var=equal).pvalue for equal in (True, False))
    assert two_means(one, other) == pytest.approx(larger)


def test_two_means_needs_repetitions_that_scatter() -> None:
    assert math.isnan(two_means([1.0], [2.0, 3.0]))
    assert math.isnan(two_means([1.0, 1.0], [2.0, 2.0]))  # how much either scatters is not known
    assert two_means([1.0, 1.0], [2.0, 2.1]) < 1
