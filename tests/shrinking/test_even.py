"""`shrink(even=True, multiple=N)`: the condition holds, and the choice is the best under it."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models_to_shrink import QUIET, build, data
from test_allocate import curve, numbers, totals

from deadhead.errors import DeadheadError
from deadhead.heads import discover, prune
from deadhead.shrinking import Budget, allocate, shrink
from deadhead.shrinking.allocate import Quota, by_quotas


def left(model):
    layout = discover(model, neurons=True)
    return [len(a.kept) for a in layout.attentions], [len(f.kept) for f in layout.feed_forwards]


@st.composite
def problems(draw):
    """Four layers in two quotas, with any costs, savings and numbers."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))
    quotas, curves, saving = [], [], {}
    for size in sizes:
        own = [curve(len(curves) + n, [draw(numbers) for _ in range(size)]) for n in range(2)]
        saving |= {c.place: [0.0, *(draw(numbers) for _ in range(size))] for c in own}
        counts = draw(st.sets(st.integers(0, size), min_size=1))
        quotas.append(Quota(tuple(c.place for c in own), tuple(sorted(counts))))
        curves += own
    budget = Budget(saving=saving, total=0, whole=1, name="heads", quotas=tuple(quotas))
    return curves, budget, draw(st.integers(0, 8)) / 8 * budget.most


@settings(max_examples=200, deadline=None)
@given(problems())
def test_it_finds_the_cheapest_of_all_allocations_within_the_quotas(problem):
    curves, budget, total = problem
    budget = Budget(**{**vars(budget), "total": total})
    counts = by_quotas(allocate, curves, budget.saving, budget)
    cost, saved = totals(curves, budget.saving, counts)
    assert saved >= total - 1e-6
    every = []
    for chosen in product(*(quota.counts for quota in budget.quotas)):
        all_of = {
            p: n for quota, n in zip(budget.quotas, chosen, strict=True) for p in quota.places
        }
        assert set(all_of) == {c.place for c in curves}
        every.append(totals(curves, budget.saving, all_of))
    assert counts in [
        {p: n for q, n in zip(budget.quotas, chosen, strict=True) for p in q.places}
        for chosen in product(*(quota.counts for quota in budget.quotas))
    ]
    assert cost == pytest.approx(min(c for c, s in every if s >= total - 1e-9))


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
@pytest.mark.parametrize(
    ("target", "method"),
    [({"heads": 0.5}, "fisher"), ({"macs": 0.6}, "auto"), ({"neurons": 0.3}, "kwon")],
)
def test_every_layer_keeps_the_same_number(family, target, method):
    report = shrink(
        model := build(family), data(family), even=True, method=method, repair="none",
        **target, **QUIET,
    )  # fmt: skip
    heads, neurons = left(model)
    assert len({*heads}) == len({*neurons}) == 1
    assert heads[0] > 0 < neurons[0]
    ordinary = any("an ordinary" in note for note in report.notes)
    assert ordinary == (family == "llama" or "neurons" in target)
    assert ordinary == ("deadhead" not in model.config.to_dict())


def test_without_the_condition_layers_differ():
    """Otherwise the test above would prove nothing."""
    model = build("llama")
    shrink(model, data("llama"), neurons=0.3, method="kwon", repair="none", **QUIET)
    assert len({*left(model)[1]}) > 1


@pytest.mark.parametrize("even", [False, True])
def test_layers_keep_multiples(even):
    report = shrink(
        model := build("bert"), data(), neurons=0.3, even=even, multiple=8, repair="none", **QUIET
    )
    assert all(count % 8 == 0 for count in left(model)[1])
    removed = 48 - sum(left(model)[1])
    assert removed in ((16, 32) if even else (16,))
    assert any(f"{removed} neurons were removed where 14" in note for note in report.notes)


def test_a_repair_adds_no_biases():
    model = build("llama")
    names = {name for name, _ in model.named_parameters()}
    shrink(model, data("llama"), heads=0.5, neurons=0.5, even=True, repair="refit-all", **QUIET)
    assert {name for name, _ in model.named_parameters()} == names


@pytest.mark.parametrize(
    ("family", "even", "repair", "is_noted"),
    [
        ("llama", True, "mean", True),
        ("llama", False, "mean", False),
        ("llama", True, "scales", False),
        ("bert", True, "mean", False),  # its projections have biases
    ],
)
def test_a_repair_that_could_change_nothing_is_noted(family, even, repair, is_noted):
    report = shrink(build(family), data(family), neurons=0.5, even=even, repair=repair, **QUIET)
    assert any("could change nothing" in note for note in report.notes) == is_noted
    if is_noted:
        assert report.losses["cut"] == pytest.approx(report.losses["refitted"])


def test_kinds_that_have_no_multiple_stay():
    report = shrink(model := build(), data(), macs=0.85, multiple=6, repair="none", **QUIET)
    assert left(model)[0] == [4, 4]
    assert all(count % 6 == 0 for count in left(model)[1])
    assert any("all heads stay" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neurons": 0.5, "multiple": 25}, "at most 24, the neurons of the smallest layer, got 25"),
        ({"heads": 0.5, "multiple": 64}, "at most 4, the heads"),
        ({"neurons": 0.5, "multiple": 0}, "whole number from 1 on, got 0"),
        ({"neurons": 0.5, "multiple": 8.0}, "whole number from 1 on, got 8.0"),
        ({"heads": 0.9, "even": True}, "at most 6 heads, got 7"),
        ({"layers": 1, "even": True}, "expects heads or neurons to remove, got neither"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(DeadheadError, match=message):
        shrink(build(), data(), **options, **QUIET)


def test_layers_that_differ_already():
    model = prune(build(), ["encoder.0.1"])
    with pytest.raises(DeadheadError, match=r"same numbers of heads in groups .* got 3, 4"):
        shrink(model, data(), heads=0.5, even=True, **QUIET)
