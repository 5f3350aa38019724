"""Drops, groups, top against bottom and recovery, each against a case worked out by hand."""

import pytest

from deadhead.errors import DataError, UnknownName
from deadhead.results.statistics import (
    LayerDifference,
    bottom_minus_top,
    drop,
    group_means,
    grouped,
    interpolate,
    recovery,
    spread,
)


def test_drop_by_hand():
    assert drop(80, 76) == pytest.approx(5)  # 100 (80 - 76) / 80
    assert drop([79, 81], [78, 74]) == pytest.approx(5)  # seeds are averaged first: 80 and 76
    assert drop(0.5, 0.55) == pytest.approx(-10)  # a gain is a drop below 0
    with pytest.raises(DataError):
        drop(0, 1)


def test_groups_are_the_papers():
    values = {
        "en": 1.0,
        "es": 2.0,
        "de": 3.0,
        "vi": 4.0,
        "zh": 5.0,
        "hi": 6.0,
        "ur": 8.0,
        "ar": 9.0,
        "tr": 10.0,
        "sw": 14.0,
        "xx": 99.0,
    }
    # SVO (1 + 2 + 3 + 4 + 5) / 5, SOV without Greek (6 + 8) / 2, VSO 9, Agglutinative (10 + 14) / 2
    assert group_means(values) == pytest.approx({"SVO": 3, "SOV": 7, "VSO": 9, "Agglutinative": 12})
    # high (1 + 2 + 3) / 3, medium vi 4, zh 5, ar 9, tr 10, low hi 6, ur 8, sw 14
    assert group_means(values, "resource") == pytest.approx({"high": 2, "medium": 7, "low": 28 / 3})
    assert group_means(values, {"mine": ["en", "sw"], "empty": ["qq"]}) == pytest.approx(
        {"mine": 7.5}
    )
    assert grouped(values, "resource")["high"] == [1, 2, 3]
    with pytest.raises(UnknownName):
        group_means(values, "colour")


def test_bottom_minus_top_by_hand():
    """Whole 80. k = 2: bottom 76 drops 5 %, top 78 drops 2.5 %: 2.5. k = 4: 20 % and 10 %: 10.
    Mean 6.25.
    """
    result = bottom_minus_top(80, top={2: 78, 4: 72, 6: 60}, bottom={2: 76, 4: 64})
    assert result == (pytest.approx({2: 2.5, 4: 10}), pytest.approx(6.25))
    # the same in one formula: 100 (top - bottom) / whole
    assert result.by_k[4] == pytest.approx(100 * (72 - 64) / 80)
    assert isinstance(result, LayerDifference)
    with pytest.raises(DataError):
        bottom_minus_top(80, top={2: 78}, bottom={4: 70})


def test_interpolate_by_hand():
    curve = {0: 0.0, 20: 1.0, 30: 4.0}
    assert interpolate(curve, 25) == pytest.approx(2.5)  # half way from 1 to 4
    assert interpolate(curve, 5) == pytest.approx(0.25)
    assert interpolate(curve, 30) == 4.0
    for outside in (-1, 31):
        with pytest.raises(DataError, match="0 to 30"):
            interpolate(curve, outside)


def test_spread_by_hand():
    """79 80 81: sd 1 of 80 = 1.25 %. 38 40 45: mean 41, squares 9 + 1 + 16 = 26, sd sqrt(13). A
    single score says nothing.
    """
    first, second = 100 * 1 / 80, 100 * 13**0.5 / 41
    assert spread([[79, 80, 81]]) == pytest.approx(first)
    assert spread([[79, 80, 81], [38, 40, 45], [70]]) == pytest.approx((first + second) / 2)
    with pytest.raises(DataError):
        spread([[70]])


def test_recovery_by_hand():
    assert recovery([72, 60, 20], [80, 60, 40]) == pytest.approx((0.9 + 1 + 0.5) / 3)
    assert recovery([72, 60], [80, 60]) == pytest.approx(
        (0.9 + 1) / 2
    )  # the mean of shares, not the share of means (132/140)
    with pytest.raises(DataError):
        recovery([1], [1, 2])
    with pytest.raises(DataError):
        recovery([], [])
