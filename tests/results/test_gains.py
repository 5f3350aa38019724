"""What pruning gains, against counts, families and luck worked out by hand or by trying
everything.
"""

import itertools
from statistics import mean

import numpy as np
import pytest

from deadhead.errors import DataError
from deadhead.results.statistics import beyond_luck, compare_with_seeds, expected_best, family_means


def test_family_means_by_hand():
    """IE: de .2, nl .4, fa .6, ur 1.2 -> 0.6; Germanic: de, nl -> 0.3; Semitic (and Afro-
    Asiatic): ar-he .9; zh is with nobody.
    """
    gains = [
        ("en", "de", 0.2),
        ("en", "nl", 0.4),
        ("en", "fa", 0.6),
        ("en", "ur", 1.2),
        ("ar", "he", 0.9),
    ]
    result = family_means(
        [*gains, ("zh", "en", 5.0), ("zh", "ja", 5.0), ("en", "en", 5.0), ("en", "xx", 5.0)]
    )
    assert result == {
        "IE": (pytest.approx(0.6), 4),
        "Germanic": (pytest.approx(0.3), 2),
        "Afro-Asiatic": (pytest.approx(0.9), 1),
        "Semitic": (pytest.approx(0.9), 1),
    }
    assert (
        family_means([("a", "b", 2.0)], {"a": "X, Y", "b": "Z, Y"}) == {}
    )  # a branch of another family is another


def test_expected_best_by_hand():
    """Of 1, 2, 4 two at a time: 2, 4, 4."""
    assert expected_best([4, 1, 2], 2) == pytest.approx(10 / 3)
    assert expected_best([4, 1, 2], 3) == 4
    assert expected_best([4, 1, 2], 1) == pytest.approx(7 / 3)
    values = np.random.default_rng(0).normal(size=9).tolist()
    assert expected_best(values, 4) == pytest.approx(
        mean(max(some) for some in itertools.combinations(values, 4))
    )
    for k in (0, 4):
        with pytest.raises(DataError):
            expected_best([4, 1, 2], k)


def test_luck_by_hand():
    """Pruned 81, 84; seeds 80.5, 82; whole 80: 4 and 2, an excess of 2.

    Two of 84, 82, 81, 80.5 called pruned: {84, 82} is ahead by 84 - 81 = 3, {84, 81} and {84, 80.5}
    by 2, the others
    behind: 3 of 6.
    """
    result = compare_with_seeds(80, [81, 84], [80.5, 82])
    assert result[:3] == pytest.approx((4, 2, 2))
    assert result.p == pytest.approx(3 / 6)
    behind = compare_with_seeds(80, [80.5, 82], [81, 84])
    assert behind.excess == pytest.approx(-2)
    assert behind.p == pytest.approx(5 / 6)  # all but {81, 80.5}, which is 3 behind


@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (4, 5)])
def test_luck_is_exact(sizes):
    """Against every way to call some of the scores pruned; ties among them."""
    rng = np.random.default_rng(sum(sizes))
    for _ in range(20):
        pool = rng.integers(0, 8, sum(sizes)).astype(float).tolist()
        pruned, seeds = pool[: sizes[0]], pool[sizes[0] :]
        ways = [set(some) for some in itertools.combinations(range(len(pool)), sizes[0])]
        ahead = [
            max(pool[i] for i in some) - max(pool[i] for i in range(len(pool)) if i not in some)
            for some in ways
        ]
        expected = mean(lead >= max(pruned) - max(seeds) - 1e-9 for lead in ahead)
        assert compare_with_seeds(0.0, pruned, seeds).p == pytest.approx(expected)


def test_more_seeds_than_prunings():
    """Two prunings against three seeds 1, 2, 4: the expected best of two is 10/3."""
    assert compare_with_seeds(0, [5, 1], [1, 2, 4]).by_luck == pytest.approx(10 / 3)
    with pytest.raises(DataError, match="seeds"):
        compare_with_seeds(0, [1, 2], [1])


def test_beyond_luck_by_hand():
    """1, 2, 3: the sum 6 is reached or exceeded in size by 2 of 8 choices of signs."""
    result = beyond_luck([1.0, 2.0, 3.0])
    assert (result.mean, result.p, result.pairs, result.groups) == (
        pytest.approx(2),
        pytest.approx(2 / 8),
        3,
        3,
    )
    assert 1 <= result.low < 2 < result.high <= 3


def test_pairs_that_share_trainings_count_once():
    """Ten pairs of two models: four choices of signs, so p cannot be below 2/4, where ten models
    would have 2/1024.
    """
    excess = [1.0] * 10
    together = beyond_luck(excess, ["en"] * 5 + ["zh"] * 5)
    assert (together.p, together.groups, together.pairs) == (pytest.approx(2 / 4), 2, 10)
    assert beyond_luck(excess).p == pytest.approx(2 / 1024)
    uneven = beyond_luck([3.0, 0.0, 0.0], ["a", "b", "b"])
    assert uneven.mean == pytest.approx(1)  # over pairs, not over groups
    with pytest.raises(DataError):
        beyond_luck([])


def test_many_pairs_are_drawn():
    result = beyond_luck([0.5] * 20)
    assert result.p < 1e-3
    assert result == beyond_luck([0.5] * 20)
