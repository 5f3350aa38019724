"""Shapley: brute force over all sets, the efficiency identity, the paper's walk, and v(S)."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_truth import USELESS, batches, planted
from ranker_cases import KINDS, scores_of
from transformers import BertConfig, BertForSequenceClassification

from architectures.configs import shrunk
from architectures.tiny import randomise
from deadhead.errors import DeadheadError
from deadhead.heads import discover, gated, head_means
from deadhead.layout import Head, HeadLayout
from deadhead.rankers import silent
from deadhead.rankers.loss import example_losses
from deadhead.rankers.ranker import RankerInputs
from deadhead.rankers.set_values import SetValues
from deadhead.rankers.shapley import Samples, Shapley, orders, walk
from deadhead.registry.options import OptionError
from deadhead.verify.inputs import batch_for

FOUR = list(HeadLayout.grid(encoder=(2, 2)))
NEVER = {
    "truncation": 0.0,
    "tolerance": -math.inf,
    "limit": 10**9,
}  # every walk to its end, no head settled

games = st.lists(st.floats(-1, 1, width=32), min_size=16, max_size=16)


class Game:
    """Any value for every set of closed heads, counting how often it is asked."""

    def __init__(self, numbers, heads=FOUR):
        sets = (
            frozenset(s) for n in range(len(heads) + 1) for s in itertools.combinations(heads, n)
        )
        self.value = dict(zip(sets, itertools.cycle(numbers), strict=False))
        self.requests: list[frozenset[Head]] = []

    def __call__(self, sets):
        self.requests += sets
        return [self.value[s] for s in sets]


def by_definition(value, heads):
    """The weighted sum over all sets without the head; value: of a set of closed heads."""
    n, result = len(heads), {}
    for head in heads:
        others = [h for h in heads if h != head]
        result[head] = sum(
            math.factorial(k)
            * math.factorial(n - k - 1)
            / math.factorial(n)
            * (value(frozenset(s)) - value(frozenset(s) | {head}))
            for k in range(n)
            for s in itertools.combinations(others, k)
        )
    return result


@given(games)
def test_all_orders_give_the_shapley_values(numbers):
    game = Game(numbers)
    result = walk(
        Shapley(permutations=24, **NEVER),
        FOUR,
        game,
        map(list, itertools.permutations(FOUR)),
        silent,
    )
    expected = by_definition(game.value.__getitem__, FOUR)
    assert {head: s.mean for head, s in result.samples.items()} == pytest.approx(expected, abs=1e-9)


@given(games, st.integers(1, 5), st.integers(0, 9))
def test_values_sum_to_what_all_heads_are_worth(numbers, permutations, seed):
    game = Game(numbers)
    result = walk(
        Shapley(permutations=permutations, **NEVER), FOUR, game, orders(FOUR, seed), silent
    )
    whole, none = game.value[frozenset()], game.value[frozenset(FOUR)]
    assert sum(s.mean for s in result.samples.values()) == pytest.approx(whole - none, abs=1e-9)


def test_truncated_walks_sum_to_something_else():
    square = Game([])
    square.value = {
        s: float(len(s) ** 2)
        for n in range(5)
        for s in map(frozenset, itertools.combinations(FOUR, n))
    }
    for truncation, total in (
        (0.0, -16),
        (0.3, -4 * (1 + 3) / 2),
    ):  # two of the four steps -1 -3 -5 -7 remain
        result = walk(
            Shapley(permutations=24, **{**NEVER, "truncation": truncation}),
            FOUR,
            square,
            map(list, itertools.permutations(FOUR)),
            silent,
        )
        assert sum(s.mean for s in result.samples.values()) == pytest.approx(total)


def one_by_one(options, heads, value, endless):
    """The walk as the pseudocode has it: one evaluation after the other."""
    samples: dict[Head, list[float]] = {head: [] for head in heads}
    closed: set[Head] = set()
    for _ in range(options.permutations):
        order, removed, previous, fresh = next(endless), frozenset(), value(frozenset()), True
        for head in order:
            before, removed = removed, removed | {head}
            if len(heads) - len(removed) <= options.truncation * len(heads):
                break
            if head in closed:
                fresh = False
                continue
            if not fresh:
                previous = value(before)
            current = value(removed)
            samples[head].append(previous - current)
            previous, fresh = current, True
            mean, n = sum(samples[head]) / len(samples[head]), len(samples[head])
            deviation = math.sqrt(sum((x - mean) ** 2 for x in samples[head]) / n)
            lower = (
                mean - (deviation * math.sqrt(2 * math.log(30) / n) + 3 * math.log(30) / n)
                if n > 1
                else -math.inf
            )
            if lower > -options.tolerance or n > options.limit:
                closed.add(head)
        if len(closed) == len(heads):
            break
    return samples, closed


@settings(max_examples=30, deadline=None)
@given(games, st.integers(0, 99))
def test_a_walk_evaluated_at_once_is_the_walk_of_the_paper(numbers, seed):
    heads = list(HeadLayout.grid(encoder=(2, 3)))
    game = Game(numbers, heads)
    options = Shapley(permutations=60, limit=25, tolerance=0.4)
    result = walk(options, heads, game, orders(heads, seed), silent)
    samples, closed = one_by_one(options, heads, game.value.__getitem__, orders(heads, seed))
    assert {head: s.count for head, s in result.samples.items()} == {
        head: len(s) for head, s in samples.items()
    }
    assert {head: s.mean for head, s in result.samples.items()} == pytest.approx(
        {h: sum(s) / len(s) for h, s in samples.items()}, abs=1e-9
    )
    assert result.settled == closed


def test_settled_heads_are_not_evaluated_again():
    always, never = Game([0.5]), Game([0.5])
    walk(Shapley(permutations=50, truncation=0, limit=5), FOUR, always, orders(FOUR, 0), silent)
    walk(Shapley(permutations=50, **NEVER), FOUR, never, orders(FOUR, 0), silent)
    assert len(always.requests) == 1 + 6 * 4
    assert len(never.requests) == 1 + 50 * 4


def test_the_bound_is_empirical_bernstein():
    marginals = [0.1, -0.2, 0.3, 0.0, 0.15]
    result = Samples()
    for marginal in marginals:
        result.add(marginal)
    deviation = float(torch.tensor(marginals, dtype=torch.float64).std(unbiased=False))
    assert result.deviation == pytest.approx(deviation)
    assert Shapley().bound(result) == pytest.approx(
        deviation * math.sqrt(2 * math.log(30) / 5) + 3 * math.log(30) / 5
    )
    assert Shapley(as_released=True).bound(result) == pytest.approx(
        deviation * math.sqrt(2 * math.log(30)) / 5 + 3 * math.log(30) / 5
    )
    assert Shapley(span=2.0).bound(result) > Shapley().bound(result)
    assert Shapley().bound(Samples(1, 0.1, 0.01)) == math.inf


def small():
    """One layer of four heads, and two batches, one padded."""
    model = BertForSequenceClassification(
        shrunk(BertConfig, {"num_hidden_layers": 1, "num_labels": 3})
    )
    randomise(model, 0)
    model = model.double().eval().requires_grad_(False)
    batch = {**batch_for(model), "labels": torch.tensor([0, 2])}
    return model, [batch, {name: value[:1] for name, value in batch.items()}]


def test_a_model_by_brute_force():
    model, data = small()
    layout = discover(model)

    def value(closed):
        with gated(model, closed=closed), torch.no_grad():
            return -float(torch.cat([example_losses(model, batch) for batch in data]).mean())

    inputs = RankerInputs(model=model, layout=layout, batches=data)
    expected = by_definition(value, list(layout))
    result = walk(
        Shapley(permutations=24, **NEVER),
        list(layout),
        SetValues(inputs, measure="loss", fill="zero", rows=5),
        map(list, itertools.permutations(layout)),
        silent,
    )
    assert {head: s.mean for head, s in result.samples.items()} == pytest.approx(
        expected, abs=1e-10
    )
    assert max(expected.values()) - min(expected.values()) > 1e-2
    scores = scores_of(Shapley(permutations=3, measure="loss", **NEVER), model, data, seed=4)
    assert sum(scores.values()) == pytest.approx(
        value(frozenset()) - value(frozenset(layout)), abs=1e-10
    )
    assert scores.details["full"] == pytest.approx(value(frozenset()))


def correct_tokens(setup, batch):
    logits, labels = setup.model(**batch).logits, batch["labels"]
    if labels.shape == batch["input_ids"].shape and setup.model.config.model_type == "llama":
        logits, labels = logits[:, :-1], labels[:, 1:]
    return int((logits.argmax(-1) == labels)[labels != -100].sum()), int((labels != -100).sum())


@pytest.mark.parametrize("rows", [1, 7, 256])
@pytest.mark.parametrize("measure", ["accuracy", "loss"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_sets_in_one_pass_are_worth_what_each_is_alone(case, kind, measure, rows):
    setup = case(kind)
    data, layout = [setup.batch, *setup.singles()[:2]], discover(setup.model)
    if kind == "causal":  # labels that the model gets right here and there
        for batch in data:
            own = setup.model(**batch).logits.argmax(-1).roll(1, 1)
            keeps = (batch["labels"] == -100) | (batch["labels"] % 3 == 0)
            batch["labels"] = torch.where(keeps, batch["labels"], own)
    means = head_means(setup.model, data)
    inputs = RankerInputs(model=setup.model, layout=layout, batches=data)
    sets = [frozenset([head]) for head in list(layout)[::3]] + [frozenset(list(layout)[1:6])]
    filled, zero = (
        SetValues(inputs, measure=measure, fill=fill, rows=rows)(sets) for fill in ("mean", "zero")
    )
    for values, fill in ((filled, means), (zero, "zero")):
        for closed, value in zip(sets, values, strict=True):
            with gated(setup.model, closed=closed, fill=fill), torch.no_grad():
                if measure == "loss":
                    losses = [example_losses(setup.model, batch) for batch in data]
                    alone = -float(torch.cat(losses).mean())
                else:
                    counts = [correct_tokens(setup, batch) for batch in data]
                    alone = sum(right for right, _ in counts) / sum(of for _, of in counts)
            assert value == pytest.approx(alone, abs=1e-9)
    assert filled != zero or measure == "accuracy"


def test_every_head_gets_a_sample_even_beyond_the_budget():
    heads = list(HeadLayout.grid(encoder=(3, 4)))
    result = walk(
        Shapley(permutations=1),
        heads,
        lambda sets: [float(len(s)) for s in sets],
        orders(heads, 0),
        silent,
    )
    assert result.walked > 1
    assert all(s.count for s in result.samples.values())
    assert {s.mean for s in result.samples.values()} == {-1.0}


def test_progress_and_details():
    notes: list[str] = []
    scores = scores_of(
        Shapley(permutations=4),
        planted(),
        batches(),
        progress=lambda done, total, note="": notes.append(f"{done}/{total} {note}"),
    )
    assert all(scores[head] == pytest.approx(0, abs=1e-6) for head in USELESS)
    assert notes[-1].startswith("4/4 widest bound ")
    assert scores.details["permutations"] == 4


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match="`delta` of shapley expects a number between 0 and 1"):
        Shapley(delta=0)
    with pytest.raises(OptionError, match="`truncation` of shapley"):
        Shapley(truncation=1)
    model = planted()
    with pytest.raises(DeadheadError, match="before it closes one"):
        scores_of(Shapley(truncation=0.9), model, batches())
