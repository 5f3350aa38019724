"""What people type: percentages, strings of numbers, and the layer sets of the papers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategy_layouts import BERT, TRANSFORMER, percents

from deadhead.strategies import layers, per_layer
from deadhead.strategies import random as random_percent
from deadhead.strategies.amounts import count, counts, layer_set


def test_roundings():
    for percent, total, expected in (
        (30, 144, [43, 43, 44]),  # 43.2; floor of kept keeps 100
        (20, 144, [29, 28, 29]),  # 28.8
        (12.5, 12, [2, 1, 2]),  # 1.5
    ):
        roundings = ("nearest", "floor_pruned", "floor_kept")
        assert [count(percent, total, rounding) for rounding in roundings] == expected
    assert [count(12.5, 4), count(12.5, 12), count(12.5, 20)] == [1, 2, 3]  # a half always goes up
    assert (
        count(0.1, 1000, "floor_pruned") == count(0.1, 1000, "floor_kept") == 1
    )  # a tenth is a tenth
    assert len(random_percent(BERT, 30, rounding="floor_kept")) == 44


@given(percents, st.integers(0, 500))
def test_roundings_agree_where_nothing_is_rounded_and_differ_by_at_most_one(percent, total):
    low, near, high = (count(percent, total, r) for r in ("floor_pruned", "nearest", "floor_kept"))
    assert 0 <= low <= near <= high <= min(low + 1, total)
    assert low <= percent * total / 100 + 1e-9 * total
    assert high >= percent * total / 100 - 1e-9 * total


def test_numbers_of_two_digits_take_commas():
    assert counts("12,12, 0,3") == [12, 12, 0, 3]
    assert counts("888444") == counts(888444) == [8, 8, 8, 4, 4, 4]
    assert counts("12,") == [12]
    left = BERT.without(per_layer(BERT, "12,12,12,12,11,10,9,8,0,0,1,2"))
    assert [len(a.kept) for a in left.of("encoder")] == [12, 12, 12, 12, 11, 10, 9, 8, 0, 0, 1, 2]


# Layer sets

A11 = {  # counted from 1, as in the papers
    "top 1": [12],
    "top 3": [10, 11, 12],
    "bottom 3": [1, 2, 3],
    "middle 4": [5, 6, 7, 8],
    "middle 3": [5, 6, 7],  # an odd number sits nearer the bottom
    "top 1, bottom 1": [1, 12],
    "top 3 + bottom 3": [1, 2, 3, 10, 11, 12],
    "odd 6": [1, 3, 5, 7, 9, 11],
    "Odd": [1, 3, 5, 7, 9, 11],
    "even": [2, 4, 6, 8, 10, 12],
    "odd 2": [1, 3],
    "top 12": list(range(1, 13)),
    "bottom 0": [],
}


@pytest.mark.parametrize(("text", "numbers"), A11.items())
def test_a11_layer_numbers(text, numbers):
    removed = layers(BERT, text)
    assert {h.layer + 1 for h in removed} == set(numbers)
    assert len(removed) == 12 * len(numbers)


def test_numbers_are_layers_counted_from_0():
    assert layer_set("0,2,5-7", range(12)) == {0, 2, 5, 6, 7}
    assert layer_set([0, 2], range(12)) == layer_set("2, 0", range(12)) == {0, 2}
    assert layer_set(4, range(12)) == {4}
    assert layer_set("11 + top2", range(12)) == {10, 11}
    assert layer_set("top 1 + 0", [3, 7, 11, 0]) == {
        0
    }  # a block whose attention is not in every layer
    assert layer_set("odd", [3, 7, 11]) == {3, 11}
    assert layer_set("3-11", [3, 7, 11, 15]) == {3, 7, 11}


def test_a_layer_set_is_of_every_block_by_default():
    assert Counter(h.block for h in layers(TRANSFORMER, "top 2")) == {
        "encoder": 16,
        "decoder": 16,
        "cross": 16,
    }


def test_a_layer_that_is_empty_already_is_still_counted():
    left = BERT.without(layers(BERT, "top 1"))
    assert {h.layer for h in layers(left, "top 3")} == {9, 10}
