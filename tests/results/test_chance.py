"""Tests against numbers worked out by hand, and against scipy where it has the same number."""

import math

import pytest
from scipy import stats

from deadhead.results.statistics import benjamini_hochberg, deviation, holm, sign_test, two_means


def test_sign_test_by_hand():
    """8 up, 2 down: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 = 2 * 56 / 1024."""
    assert sign_test(8, 2) == sign_test(2, 8) == pytest.approx(112 / 1024)
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 0) == 1.0
    for up, down in ((88, 8), (31, 3), (3, 4)):
        assert sign_test(up, down) == pytest.approx(stats.binomtest(up, up + down).pvalue)


def test_holm_by_hand():
    """Sorted 0.01 0.03 0.04, times 3, 2, 1: 0.03 0.06 0.04, and none below the one before: 0.03
    0.06 0.06.
    """
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    with_nan = holm([0.02, math.nan, 0.5])  # two tests, not three
    assert with_nan[0] == pytest.approx(0.04)
    assert math.isnan(with_nan[1])
    assert holm([]) == []


def test_benjamini_hochberg_by_hand():
    assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert benjamini_hochberg([0.9, 0.02]) == pytest.approx([0.9, 0.04])
    with_nan = benjamini_hochberg([0.02, math.nan, 0.5])  # two tests, not three
    assert with_nan[0] == pytest.approx(0.04)
    assert math.isnan(with_nan[1])
    assert benjamini_hochberg([]) == []


@pytest.mark.parametrize(
    ("one", "other"), [([1.0, 2.0, 4.0], [5.0, 7.0, 8.0]), ([1.0, 9.0], [4.0, 4.1, 4.2, 4.3, 4.4])]
)
def test_two_means_is_the_larger_of_two_t_tests(one, other):
    from scipy.stats import ttest_ind

    larger = max(ttest_ind(one, other, equal_var=equal).pvalue for equal in (True, False))
    assert two_means(one, other) == pytest.approx(larger)


def test_two_means_needs_repetitions_that_scatter():
    assert math.isnan(two_means([1.0], [2.0, 3.0]))
    assert math.isnan(two_means([1.0, 1.0], [2.0, 2.0]))  # how much either scatters is not known
    assert two_means([1.0, 1.0], [2.0, 2.1]) < 1


def test_deviation_by_hand():
    """Around 80 the squares are 1, 0 and 1, divided by n - 1 = 2."""
    assert deviation([79.0, 80.0, 81.0]) == pytest.approx(1)
    assert deviation([5.0, 5.0]) == 0
