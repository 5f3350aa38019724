"""What a strategy says about itself, and which amounts and options it refuses."""

from math import nan
from typing import Any

import pytest
from strategy_layouts import BERT

from deadhead import strategies
from deadhead.errors import DeadheadError, GroupError, HeadError, UnknownName
from deadhead.layout import Head
from deadhead.strategies import STRATEGIES, choose

SCORES = dict.fromkeys(BERT, 0.0)


BAD: list[tuple[str, Any, dict[str, Any], str]] = [
    ("random", -1, {}, "expected a percentage from 0 to 100, got -1"),
    ("random", "1e99999999", {}, "expected a percentage from 0 to 100, got the text '1e99999999'"),
    ("random", nan, {}, "expected a percentage from 0 to 100, got nan"),
    ("random", 50, {"rounding": "neerest"}, "Did you mean 'nearest'"),
    ("random", 50, {"per": "blok"}, "Did you mean 'block'"),
    ("per_block", {"decoder": 9}, {}, "no block 'decoder'"),
    ("random", 50, {"seed": None}, "`seed` of random expects a whole number or a text, got None"),
    ("randm", 50, {}, "Did you mean 'random'"),
    ("random_k", 145, {}, "cannot remove 145 heads from model: it has 144"),
    ("random_k", -1, {}, "k expects a whole number of heads, 0 or more, got -1"),
    ("stratified", 13, {}, "encoder.0 cannot keep 13 heads: it has 12"),
    ("per_layer", "888444", {}, "each of the 12 layers of encoder, got 6 in '888444'"),
    ("per_layer", "88844x888444", {}, "expects a whole number of heads, 0 or more, got 'x'"),
    ("per_layer", {"encodr": "888444888444"}, {}, "Did you mean 'encoder'"),
    ("per_block", {"encoder": 9, "ES": 9}, {}, "named twice"),
    ("per_block", (14, 31, 30), {}, "14/31/30 is for 3 blocks, but there are 1"),
    ("per_block", 145, {}, "encoder cannot keep 145 heads: it has 144"),
    ("per_block", "many", {}, "expects a whole number of heads, 0 or more, got 'many'"),
    ("layers", "tpo 3", {}, "Did you mean 'top'"),
    ("layers", "top", {}, "expected a number of layers after 'top', got none"),
    ("layers", "top 13", {}, "encoder has 12 layers"),
    ("layers", "12", {}, "encoder has no layers 12"),
    ("layers", "7-5", {}, "expected a range of layers from low to high, got 7-5"),
    ("layers", "top 3 + ", {}, "expected a set of layers, got ''"),
    ("lowest", 3, {}, "`scores` expects a number for each head, got None"),
    ("lowest", 3, {"scores": {}}, "144 of 144 heads have no score; the first is encoder.0.0"),
    (
        "lowest",
        3,
        {"scores": {**SCORES, Head("encoder", 2, 1): nan}},
        "the score of encoder.2.1 is not a number",
    ),
    ("highest", 145, {"scores": SCORES}, "it has 144"),
]


@pytest.mark.parametrize(("name", "amount", "options", "says"), BAD)
def test_bad_input_gives_one_clear_error(name, amount, options, says):
    with pytest.raises(DeadheadError) as error:
        choose(name, BERT, amount, **options)
    assert says in error.value.message
    assert error.value.hint or isinstance(error.value, UnknownName)
    assert not isinstance(error.value, GroupError)


def test_strategies_are_found_by_name():
    assert all(getattr(strategies, name) is each.select for name, each in STRATEGIES.items())


def test_the_facts_of_a_strategy_are_those_of_its_function():
    """What a descriptor states, seen in the heads that its function chooses."""
    amounts = {"per_layer": "6" * 12, "per_block": "60", "layers": "top 3"}
    scores = {head: float(i) for i, head in enumerate(BERT)}
    for name, each in STRATEGIES.items():
        amount = amounts.get(name, 5)
        each.check_amount(name, amount)
        seeds = {each(BERT, amount, seed=seed, scores=scores) for seed in range(5)}
        assert (len(seeds) > 1) == each.draws, name
        if each.needs_scores:
            with pytest.raises(
                HeadError, match="`scores` expects a number for each head, got None"
            ):
                each(BERT, amount)
        else:
            assert each(BERT, amount) == each(BERT, amount, scores=scores), name
        if each.amount.typed is not str:
            nothing = each(BERT, 0, scores=scores) == frozenset()
            assert nothing == each.amount.zero_is_nothing, name
        assert each.help.endswith("."), name
        assert str(amount) in each.in_words(amount), name
        for text in ("banana", True, None, -1):
            with pytest.raises((HeadError, UnknownName)):
                each.check_amount(name, text)
