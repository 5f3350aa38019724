"""Numbers by layer: means, the 10 % test, trends and thirds, each worked out by hand."""

import math

import pytest

from deadhead.errors import DataError
from deadhead.results.statistics import (
    by_distance,
    by_layer,
    entropy_change,
    evenness,
    layer_means,
    third_of_layers,
)


def layers(*values):
    return {f"encoder.{layer}.0": value for layer, value in enumerate(values)}


def test_layer_means_by_hand():
    values = {"encoder.0.0": 1.0, "encoder.0.7": 3.0, "encoder.2.1": 4.0, "cross.0.0": 9.0}
    assert layer_means(values) == {("encoder", 0): 2.0, ("encoder", 2): 4.0, ("cross", 0): 9.0}


def test_the_ten_percent_test():
    assert evenness(layers(0.95, 1.0, 0.97)) == (
        True,
        pytest.approx(0.05),
        layer_means(layers(0.95, 1.0, 0.97)),
    )
    assert not evenness(layers(0.85, 1.0)).holds
    assert not evenness(layers(0.75, 1.0), limit=0.25).holds  # 25 % is not below 25 %
    assert evenness(layers(0.8, 1.0), limit=0.25).holds
    for nothing in (layers(1.0), layers(0.0, 0.0)):
        with pytest.raises(DataError):
            evenness(nothing)


def test_trend_over_layers():
    assert by_layer(layers(1, 2, 4, 3)).rho == pytest.approx(0.8)
    assert by_layer(layers(1, 2, 4, 3)).p == pytest.approx(8 / 24)


def test_distance_to_the_nearest_pruned_layer():
    """Of seven layers the first and the fifth lost all heads: 1 2 3 5 6 are 1, 2, 1, 1, 2 away.

    Changes 1 5 2 3 6: ranks of distance 2 4.5 2 2 4.5, of change 1 4 2 3 5; centred -1 1.5 -1 -1
    1.5 and -2 1 -1 0 2:
    (2 + 1.5 + 1 + 0 + 3) / sqrt(7.5 * 10).
    """
    values = {
        f"encoder.{layer}.1": change
        for layer, change in zip((1, 2, 3, 5, 6), (1, 5, 2, 3, 6), strict=True)
    }
    removed = [f"encoder.{layer}.{head}" for layer in (0, 4) for head in (0, 1)] + [
        "encoder.1.0"
    ]  # layer 1 lost one head only
    result = by_distance(values, removed)
    assert result.rho == pytest.approx(7.5 / math.sqrt(75))
    assert result.n == 5
    assert math.isnan(by_distance(values, ["encoder.1.0"]).rho)  # no layer lost all


def test_thirds():
    assert [third_of_layers(layer, 12)[0] for layer in range(12)] == list("bbbbmmmmtttt")
    assert [third_of_layers(layer, 6)[0] for layer in range(6)] == list("bbmmtt")
    assert [third_of_layers(layer, 5)[0] for layer in range(5)] == list("bbmmt")
    assert [third_of_layers(layer, 3)[0] for layer in range(3)] == list("bmt")
    with pytest.raises(DataError):
        third_of_layers(12, 12)


def test_entropy_change_by_hand():
    """Six layers: 0 and 1 move by 0.1 and -0.3 (0.2 in the mean), 3 by 0.5, 5 by -0.7;
    head 2.0 is only before.
    """
    before = {**layers(1, 1, 1, 1), "encoder.5.0": 2.0}
    after = {"encoder.0.0": 1.1, "encoder.1.0": 0.7, "encoder.3.0": 1.5, "encoder.5.0": 1.3}
    assert entropy_change(before, after) == pytest.approx(
        {"bottom": 0.2, "middle": 0.5, "top": 0.7}
    )
    # in a model of 12 layers these are the bottom (0, 1, 3) and the middle (5)
    assert entropy_change(before, after, layers=12) == pytest.approx({"bottom": 0.3, "middle": 0.7})
