"""Strategies one by one: the tables of the papers to the letter, and rankings by hand."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategy_layouts import BERT, TRANSFORMER, kept_in, percents, seeds

from deadhead.layout import Head, HeadLayout
from deadhead.strategies import highest, lowest, per_block, per_layer, random_k, stratified
from deadhead.strategies import random as random_percent
from deadhead.strategies.amounts import count

# Random at a percentage

# 87 % is 126 by stratifying, see below.
PRUNED_OF_144 = {10: 14, 25: 36, 30: 43, 35: 50, 55: 79, 70: 101, 81: 117, 87: 125, 90: 130}

KEPT_OF_48 = {25: 36, 35: 31, 50: 24, 55: 22, 60: 19, 75: 12, 81: 9}


@pytest.mark.parametrize(("percent", "pruned"), PRUNED_OF_144.items())
def test_heads_pruned_of_144(percent, pruned):
    assert count(percent, 144) == pruned
    assert len(random_percent(BERT, percent)) == len(random_percent(TRANSFORMER, percent)) == pruned


@pytest.mark.parametrize(("percent", "kept"), KEPT_OF_48.items())
def test_transformer_keeps_equally_many_in_each_component(percent, kept):
    removed = random_percent(TRANSFORMER, percent, per="block")
    assert len(removed) == 144 - 3 * kept
    assert {
        block: sum(numbers) for block, numbers in kept_in(TRANSFORMER, removed).items()
    } == dict.fromkeys(TRANSFORMER.blocks, kept)
    assert {35: 51, 55: 78, 60: 87}.get(percent, len(removed)) == len(removed)


def test_the_87_percent_case_keeps_one_head_in_every_layer():
    removed = stratified(TRANSFORMER, 1)
    assert len(removed) == 126
    assert kept_in(TRANSFORMER, removed) == dict.fromkeys(TRANSFORMER.blocks, [1] * 6)
    assert (
        random_percent(TRANSFORMER, 87, per="layer") == removed
    )  # the same said as a percentage of each layer
    kept = {seed: frozenset(TRANSFORMER) - stratified(TRANSFORMER, seed=seed) for seed in range(20)}
    assert len(set(kept.values())) == 20  # which head it is, is chance
    assert {head.index for part in kept.values() for head in part} == set(range(8))


@given(percents, seeds, st.sampled_from(["nearest", "floor_pruned", "floor_kept"]))
def test_random_removes_exactly_the_count(percent, seed, rounding):
    options = {"seed": seed, "rounding": rounding}
    assert len(random_percent(TRANSFORMER, percent, **options)) == count(percent, 144, rounding)
    for per, size in (("block", 48), ("layer", 8)):
        removed = random_percent(TRANSFORMER, percent, per=per, **options)
        shares = Counter((h.block, h.layer if per == "layer" else 0) for h in removed)
        assert len(set(shares.values())) <= 1
        assert sum(shares.values()) == (144 // size) * count(percent, size, rounding)


def test_a_percentage_is_of_the_remaining_heads_by_default():
    left = BERT.without(random_percent(BERT, 25))
    again = random_percent(left, 50)
    assert len(again) == 54
    assert again <= set(left)


# Layer strings and component triples

TABLE_2 = [  # per cent, then ES, ED, DS
    (0, "888888", "888888", "888888"),
    (25, "888444", "444888", "888444"),
    (40, "223777", "777332", "233777"),
    (60, "555211", "112555", "555211"),
    (75, "111333", "333111", "111333"),
]

TABLE_3 = [(0, 48, 48, 48), (48, 14, 31, 30), (60, 21, 12, 25), (75, 15, 13, 8), (82, 5, 9, 12)]


@pytest.mark.parametrize(("percent", "es", "ed", "ds"), TABLE_2)
def test_table_2_strings(percent, es, ed, ds):
    removed = per_layer(TRANSFORMER, {"ES": es, "ED": ed, "DS": ds}, seed=1)
    assert kept_in(TRANSFORMER, removed) == {
        "encoder": [*map(int, es)],
        "cross": [*map(int, ed)],
        "decoder": [*map(int, ds)],
    }
    assert abs(100 * len(removed) / 144 - percent) < 1.2
    assert (
        removed
        == per_layer(TRANSFORMER, (es, ed, ds), seed=1)
        == per_layer(TRANSFORMER, f"{es}/{ed}/{ds}", seed=1)
    )
    assert removed == per_layer(TRANSFORMER, {"decoder": ds, "encoder": es, "cross": ed}, seed=1)
    assert (removed == per_layer(TRANSFORMER, (es, ed, ds), seed=2)) == (percent == 0)


@pytest.mark.parametrize(("percent", "es", "ed", "ds"), TABLE_3)
def test_table_3_triples(percent, es, ed, ds):
    removed = per_block(TRANSFORMER, (es, ed, ds))
    left = kept_in(TRANSFORMER, removed)
    assert (sum(left["encoder"]), sum(left["cross"]), sum(left["decoder"])) == (es, ed, ds)
    assert {0: 144, 48: 75, 60: 58, 75: 36, 82: 26}[percent] == 144 - len(removed)
    assert removed == per_block(TRANSFORMER, f"{es}/{ed}/{ds}")


def test_blocks_that_are_not_named_stay_whole():
    assert {h.block for h in per_layer(TRANSFORMER, {"cross": "000000"})} == {"cross"}
    assert {h.block for h in per_block(TRANSFORMER, {"DS": 4})} == {"decoder"}
    encoder = HeadLayout(TRANSFORMER.of("encoder"))
    assert per_layer(encoder, "444444") == per_layer(TRANSFORMER, {"encoder": [4] * 6})
    assert per_block(BERT, 14) == per_block(BERT, "14") == per_block(BERT, {"encoder": 14})


# Prefixes of a ranking


def test_lowest_and_highest_by_hand():
    layout = HeadLayout.grid(encoder=(2, 2))
    a, b, c, d = layout
    scores = {a: 0.5, b: 0.1, c: 0.1, d: 0.9}
    assert [lowest(layout, k, scores=scores) for k in range(5)] == [
        set(),
        {b},
        {b, c},
        {b, c, a},
        {a, b, c, d},
    ]
    assert [highest(layout, k, scores=scores) for k in range(5)] == [
        set(),
        {d},
        {d, a},
        {d, a, c},
        {a, b, c, d},
    ]


def test_ties_fall_by_layer_then_head_whatever_the_block():
    flat = dict.fromkeys(TRANSFORMER, 1.0)
    assert lowest(TRANSFORMER, 4, scores=flat) == {
        Head("encoder", 0, 0),
        Head("decoder", 0, 0),
        Head("cross", 0, 0),
        Head("encoder", 0, 1),
    }


@given(st.lists(st.integers(-2, 2), min_size=144, max_size=144), st.integers(0, 144))
def test_prefixes_are_exact_nested_and_complementary(values, k):
    scores = dict(zip(BERT, map(float, values), strict=True))
    low, high = lowest(BERT, k, scores=scores), highest(BERT, 144 - k, scores=scores)
    assert len(low) == k
    assert not low & high
    assert low | high == set(BERT)
    assert max((scores[h] for h in low), default=-3) <= min((scores[h] for h in high), default=3)
    assert k == 144 or low < lowest(BERT, k + 1, scores=scores)


@pytest.mark.parametrize("k", range(1, 13))
def test_random_prefixes_nest_with_one_seed(k):
    assert len(random_k(BERT, k)) == k
    assert random_k(BERT, k) < random_k(BERT, k + 1)
    assert random_k(BERT, k) == random_k(BERT, k, seed=42) != random_k(BERT, k, seed=43)


def test_scores_of_heads_gone_are_not_missed_and_infinity_protects():
    scores = {head: float(i) for i, head in enumerate(BERT)}
    left = BERT.without(lowest(BERT, 3, scores=scores))
    assert lowest(left, 2, scores={**scores, Head("encoder", 0, 3): inf}) == {
        Head("encoder", 0, 4),
        Head("encoder", 0, 5),
    }
    assert lowest(left, 1, scores={h: scores[h] for h in left}) == {Head("encoder", 0, 3)}
