"""Correlations and overlaps against numbers worked out by hand, and against scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from deadhead.errors import DataError
from deadhead.ranking.compare import overlap, rho, spearman

NAMES = [f"encoder.{layer}.{head}" for layer in range(2) for head in range(3)]


def scores(*values):
    return dict(zip(NAMES, values, strict=True))


EN, DE, ZH = scores(1, 2, 3, 4, 5, 6), scores(2, 1, 3, 4, 6, 5), scores(6, 5, 4, 3, 2, 1)


def test_spearman_by_hand():
    """Ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 (0 + 0 + 1 + 1) / (4 * 15) = 0.8.

    Of the 24 orders, |rho| >= 0.8 for the sum of squares 0, 2 (1 - 0.2 = 0.8), 18 and 20: 1 + 3 + 3
    + 1 = 8 orders, so p = 8/24.
    """
    result = spearman([10, 20, 30, 40], [1, 2, 9, 3])
    assert result.rho == pytest.approx(0.8)
    assert result.p == pytest.approx(8 / 24)
    assert (result.n, result.how) == (4, "exact")


def test_spearman_with_ties_by_hand():
    """Ranks of (1, 1, 2) are 1.5 1.5 3, of (1, 2, 3) are 1 2 3; centred -.5 -.5 1 and -1 0 1.

    rho = (0.5 + 0 + 1) / sqrt(1.5 * 2) = 1.5 / sqrt 3. The 6 orders give 1.5, 1.5, 0, 0, -1.5, -1.5
    above: p = 4/6.
    """
    result = spearman([1, 1, 2], [1, 2, 3])
    assert result.rho == pytest.approx(1.5 / math.sqrt(3))
    assert result.p == pytest.approx(4 / 6)


@pytest.mark.parametrize("n", [5, 8, 24, 144])
def test_spearman_against_scipy(n):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 6, n).astype(float)  # many ties
    y = x + rng.normal(0, 4, n)
    mine, theirs = spearman(x, y), stats.spearmanr(x, y)
    assert mine.rho == rho(x, y) == pytest.approx(theirs.statistic)
    assert spearman(x, y, exact=False).p == pytest.approx(theirs.pvalue)
    if n == 144:
        assert mine.how == "t"
        assert mine.p == pytest.approx(theirs.pvalue)
    else:

        def statistic(order):
            return float(stats.spearmanr(order, y).statistic)

        resamples = np.inf if n == 5 else 600
        other = stats.permutation_test(
            (x,), statistic, permutation_type="pairings", n_resamples=resamples, rng=0
        )
        assert mine.p == pytest.approx(other.pvalue, abs=1e-9 if n == 5 else 0.07)


def test_nothing_to_correlate():
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]).rho)
    assert math.isnan(spearman([1, 2], [1, 2]).p)
    assert math.isnan(spearman([1, 2, math.nan], [1, 2, 3]).p)
    with pytest.raises(DataError):
        spearman([1, 2, 3], [1, 2])


def test_overlap_by_hand():
    """The two highest of en are 6 and 5 (1.2, 1.1), of de the same; the two lowest are 0.0 and 0.1
    in both; zh shares none.

    By chance 2 * 2 / 6 heads; the chance of both is 1 / C(6, 2) = 1/15.
    """
    same, other = overlap(EN, DE, 2), overlap(EN, ZH, 2)
    assert (same.highest, same.lowest, same.by_chance) == (2, 2, pytest.approx(4 / 6))
    assert same.p_highest == pytest.approx(1 / 15)
    assert (other.highest, other.lowest, other.p_highest) == (0, 0, 1.0)
    half = overlap(
        EN, scores(1, 2, 6, 5, 4, 3), 2
    )  # its lowest are those of en, its highest the two in the middle
    assert (half.highest, half.lowest, half.p_lowest) == (0, 2, pytest.approx(1 / 15))
    assert overlap(EN, DE, 1).highest == 0  # the twin: the highest itself is another
    with pytest.raises(DataError):
        overlap(EN, DE, 7)
