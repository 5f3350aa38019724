"""Draws: any layout and strategy; groups whole, exact or refused, uniform, seeds that last."""

import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategy_layouts import BERT, kept_in, percents, seeds

from deadhead.errors import GroupError
from deadhead.layout import Attention, Head, HeadLayout
from deadhead.strategies import (
    STRATEGIES,
    choose,
    highest,
    lowest,
    per_block,
    per_layer,
    random_k,
    stratified,
)
from deadhead.strategies import random as random_percent


def llama(layer_count=4, size=8, group=4):
    return HeadLayout(
        Attention(
            block="decoder", layer=i, size=size, kept=tuple(range(size)), width=16, group=group
        )
        for i in range(layer_count)
    )


# An image model with a language model: some heads go alone, some in fours.
MIXED = HeadLayout([*HeadLayout.grid(vision=(2, 3)).attentions, *llama(2).attentions])


@st.composite
def layouts(draw):
    """Blocks of any shape, grouped or not, from which whole groups may be gone already."""
    attentions = []
    for block in draw(
        st.lists(
            st.sampled_from(["encoder", "decoder", "cross", "vision"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    ):
        group = draw(st.sampled_from([1, 1, 2, 3]))
        size = group * draw(st.integers(1, 4))
        for layer in range(draw(st.integers(1, 5))):
            left = sorted(draw(st.sets(st.integers(0, size // group - 1))))
            kept = tuple(i for g in left for i in range(g * group, (g + 1) * group))
            attentions.append(
                Attention(block=block, layer=layer, size=size, kept=kept, width=4, group=group)
            )
    return HeadLayout(attentions)


def groups_are_whole(layout, removed):
    return all(
        len(removed & set(bundle)) in (0, len(bundle))
        for a in layout.attentions
        for bundle in a.groups
    )


# One contract for every strategy ------------------------------------------------------------------


@st.composite
def calls(draw):
    """Any strategy with an amount it can be given on any layout (groups may still refuse it)."""
    layout, name = draw(layouts()), draw(st.sampled_from(sorted(STRATEGIES)))
    amount = {
        "random": percents,
        "random_k": st.integers(0, len(layout)),
        "stratified": st.integers(0, min(len(a.kept) for a in layout.attentions)),
        "per_layer": st.fixed_dictionaries(
            {
                b: st.tuples(*(st.integers(0, len(a.kept)) for a in layout.of(b)))
                for b in layout.blocks
            }
        ),
        "per_block": st.fixed_dictionaries(
            {b: st.integers(0, sum(len(a.kept) for a in layout.of(b))) for b in layout.blocks}
        ),
        "layers": st.sampled_from(
            ["top 1", "bottom 1", "middle 1", "odd", "even", "0", "top 1 + bottom 1"]
        ),
        "lowest": st.integers(0, len(layout)),
        "highest": st.integers(0, len(layout)),
        **dict.fromkeys(
            ("lowest_layers", "random_layers"),
            st.integers(0, sum(bool(a.kept) for a in layout.attentions)),
        ),
    }[name]
    scores = {head: draw(st.integers(0, 3)) / 3 for head in layout}
    return name, layout, draw(amount), {"seed": draw(seeds), "scores": scores}


@given(calls())
def test_every_strategy_keeps_the_contract(call):
    name, layout, amount, given_ = call
    if (removed := or_refused(name, layout, amount, **given_)) is None:
        assert any(a.group > 1 for a in layout.attentions)  # no other reason to refuse
        return
    assert isinstance(removed, frozenset)
    assert all(
        isinstance(head, Head) and head in layout for head in removed
    )  # none of those gone before
    assert groups_are_whole(layout, removed)
    assert STRATEGIES[name](layout, amount, **given_) == removed  # same arguments, same set


def or_refused(name, layout, amount, **options):
    try:
        return choose(name, layout, amount, **options)
    except GroupError:
        return None


@given(layouts())
def test_nothing_and_everything(layout):
    assume(len(layout))
    assert (
        random_percent(layout, 0)
        == per_block(layout, {b: sum(len(a.kept) for a in layout.of(b)) for b in layout.blocks})
        == frozenset()
    )
    assert (
        random_percent(layout, 100)
        == random_k(layout, len(layout))
        == stratified(layout, 0)
        == frozenset(layout)
    )


@given(layouts(), st.data(), seeds)
def test_per_layer_keeps_exactly_what_it_spells(layout, data, seed):
    expected = {
        b: [data.draw(st.integers(0, len(a.groups))) * a.group for a in layout.of(b)]
        for b in layout.blocks
    }
    removed = per_layer(
        layout, {b: ",".join(map(str, numbers)) + "," for b, numbers in expected.items()}, seed=seed
    )
    assert kept_in(layout, removed) == expected


# The same on every machine ------------------------------------------------------------------------


def test_draws_are_uniform():
    """Every head, and every pair, is drawn equally often (3000 draws, 6 standard deviations)."""
    layout, pairs, n = HeadLayout.grid(encoder=(2, 3)), Counter[tuple[Head, ...]](), 3000
    for seed in range(n):
        pairs[tuple(sorted(random_percent(layout, 33, seed=seed)))] += 1
    assert set(pairs) == set(combinations(layout, 2))
    assert all(abs(seen - n / 15) < 6 * (n / 15 * 14 / 15) ** 0.5 for seen in pairs.values())


def test_seeds_mean_the_same_heads_for_ever():
    """Written down once: a change here would change every published mask."""

    def text(removed):
        return " ".join(f"{h.layer}.{h.index}" for h in sorted(removed))

    assert text(random_percent(BERT, 5, seed=0)) == "1.5 1.8 2.0 6.11 7.7 8.0 8.3"
    assert text(random_percent(BERT, 5, seed="three")) == "3.10 4.6 5.7 9.11 11.0 11.6 11.9"
    assert text(random_k(BERT, 5)) == "2.5 4.0 5.3 8.5 9.8"
    assert (
        text(random_percent(llama(), 50, seed=1))
        == "0.4 0.5 0.6 0.7 1.4 1.5 1.6 1.7 2.4 2.5 2.6 2.7 3.4 3.5 3.6 3.7"
    )
    assert random_percent(BERT, 5, seed=7) == random_percent(
        BERT, 5, seed="7"
    )  # a seed is its text


def test_the_hash_seed_of_the_process_does_not_matter():
    code = (
        "from deadhead.layout import HeadLayout as L; from deadhead import strategies as s; "
        "import sys;"
        "print(sorted(s.random(L.grid(encoder=(6, 8), cross=(6, 8)), 40, seed='x', per='block')));"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": h},
            capture_output=True,
            check=True,
            text=True,
        )
        for h in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


# Groups -------------------------------------------------------------------------------------------


def test_groups_are_ranked_by_their_mean():
    layout = llama(1)
    scores = dict(zip(layout, [0, 0, 0, 9, 2, 2, 2, 2], strict=True))
    assert {h.index for h in lowest(layout, 4, scores=scores)} == {
        4,
        5,
        6,
        7,
    }  # though the three lowest heads are elsewhere
    assert {h.index for h in highest(layout, 4, scores=scores)} == {0, 1, 2, 3}


def test_the_percentages_a_refusal_names_will_do():
    with pytest.raises(GroupError, match=r"12 or 16 of its 32 heads \(37.5 or 50 %\)"):
        random_percent(llama(), 45)
    assert len(random_percent(llama(), 37.5)) == 12
    with pytest.raises(GroupError, match=r"remove 4 or 8 of its 8 heads .* which keeps 4 or 0"):
        stratified(llama(), 1)
    assert len(stratified(llama(), 4)) == 16


def test_groups_of_different_sizes_are_drawn_uniformly():
    layout, seen, n = (
        HeadLayout([*HeadLayout.grid(vision=(1, 4)).attentions, *llama(1, 4, 2).attentions]),
        Counter[frozenset[Head]](),
        3000,
    )
    for seed in range(n):
        seen[random_percent(layout, 50, seed=seed)] += 1
    single, pairs = layout.of("vision")[0].heads, layout.of("decoder")[0].groups
    sets = [frozenset(single), frozenset(pairs[0] + pairs[1])]
    sets += [frozenset(two) | frozenset(pair) for two in combinations(single, 2) for pair in pairs]
    assert set(seen) == set(sets)
    assert all(abs(seen[s] - n / 14) < 6 * (n / 14 * 13 / 14) ** 0.5 for s in sets)


def test_a_prefix_does_not_skip_a_group_to_meet_a_number():
    scores = {head: (0.0 if head.block == "decoder" else 1.0) for head in MIXED}
    with pytest.raises(GroupError, match="remove 0 or 4 "):
        lowest(MIXED, 2, scores=scores)
    assert {h.block for h in highest(MIXED, 2, scores=scores)} == {"vision"}


@given(layouts())
def test_what_a_refusal_offers_is_the_nearest_that_can_be_had(layout):
    assume(len(layout))
    percents = {k: Fraction(100 * k, len(layout)) for k in range(len(layout) + 1)}
    can = [k for k, share in percents.items() if or_refused("random", layout, share) is not None]
    for k in set(percents) - set(can):
        with pytest.raises(GroupError) as error:
            random_percent(layout, percents[k])
        nearest = max(c for c in can if c < k), min(c for c in can if c > k)
        assert f"remove {nearest[0]} or {nearest[1]} of its" in str(error.value)
