"""Which units go: planted ones first, whatever the batches; errors before anything is computed."""

import copy
from importlib import import_module
from pathlib import Path

import pytest
import torch
from choice_cases import data, duplicate, model_of, silence, singles

from architectures.tiny import tiny
from deadhead.errors import DataError, DeadheadError, UnknownName
from deadhead.heads.discover import discover
from deadhead.heads.prune import prune
from deadhead.layout import Head
from deadhead.shrinking import (
    CHOOSERS,
    Budget,
    check_method,
    choose,
    method_names,
    removal,
    units_of,
)
from deadhead.shrinking.choose import choose_by_each
from deadhead.shrinking.chooser import Evidence
from deadhead.shrinking.methods import Fisher, Kwon, Reconstruction, by_diagonal

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BOTH = tuple(name for name in method_names() if name not in ("gradient", "taylor"))
DATA = tuple(name for name in CHOOSERS if name != "random")


class Diagonal(Fisher):
    """The costs of neurons, for heads too."""

    def curves(self, evidence, kind):
        return by_diagonal(evidence, kind)


@pytest.fixture
def flap(monkeypatch):
    """The method of the benchmarks that reads inputs alone."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    CHOOSERS["flap"] = import_module("flap").Flap
    yield "flap"
    del CHOOSERS["flap"]


def counted(model, heads=0, neurons=0):
    layout = discover(model, neurons=True)
    budgets = [removal(layout, "heads", heads)] if heads else []
    return budgets + ([removal(layout, "neurons", neurons)] if neurons else [])


def chosen(model, batches, method, heads=0, neurons=0, **options):
    budgets = counted(model, heads, neurons)
    return choose(model, batches, method, budgets=budgets, progress=False, **options)


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize("kind", ["tag", "causal"])
def test_a_choice_has_the_requested_number_of_units_and_can_be_pruned(method, kind):
    model, batch = model_of(kind), data(kind)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    choice = chosen(model, [batch], method, heads=4, neurons=30)
    assert len(choice.heads) == 4
    assert sum(map(len, choice.neurons.values())) == 30
    assert set(choice.method) == {"heads", "neurons"}
    assert (choice.predicted is None) == (method == "random")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    prune(model, choice.heads, neurons=choice.neurons)
    left = discover(model, neurons=True)
    assert len(left) == 4
    assert sum(len(f.kept) for f in left.feed_forwards) == 2 * 48 - 30


@pytest.mark.parametrize("method", DATA)
@pytest.mark.parametrize("kind", ["tag", "causal"])
def test_the_choice_depends_neither_on_batches_nor_on_the_padding_side(method, kind):
    model, batch = model_of(kind), data(kind)
    neurons = 30 if "neurons" in CHOOSERS[method].kinds else 0
    together = chosen(model, [batch], method, heads=4, neurons=neurons)
    for batches in (singles(batch), [data(kind, "left")]):
        other = chosen(model, batches, method, heads=4, neurons=neurons)
        assert (other.heads, other.neurons) == (together.heads, together.neurons)


@pytest.mark.parametrize("method", [*DATA, "auto"])
def test_units_that_nothing_reads_go_first(method):
    model, batch = model_of("tag"), data("tag")
    silence(model, "heads", 1, 2)
    assert chosen(model, [batch], method, heads=1).heads == (Head("encoder", 1, 2),)
    if method not in ("gradient", "taylor"):
        silence(model, "neurons", 0, 17)
        silence(model, "neurons", 1, 5)
        for layer, number in ((0, 17), (1, 5)):
            table = {("neurons", "encoder", layer): range(49)}
            budget = Budget(saving=table, total=1, whole=48, name="neurons")
            choice = choose(model, [batch], method, budgets=[budget], progress=False)
            assert choice.neurons == {("encoder", layer): (number,)}


@pytest.mark.parametrize("kind", ["heads", "neurons"])
def test_reconstruction_removes_one_of_two_that_do_the_same(kind):
    """At next to no cost, where the diagonal of the Fisher matrix sees two units that matter."""
    model, batch = model_of("tag"), data("tag")
    before = curve_at(model, batch, Reconstruction, kind, 1)
    (needed,), (twin,) = before.units[-1], before.units[0]
    duplicate(model, kind, 1, needed, twin)
    after = curve_at(model, batch, Reconstruction, kind, 1)
    diagonal = curve_at(model, batch, Diagonal, kind, 1)
    assert after.units.index((twin,)) < 0.2 * len(after.units)
    assert after.units[-1] == (needed,)
    assert diagonal.units.index((twin,)) > after.units.index((twin,))
    assert step(after, twin) < 0.05 * step(diagonal, twin)
    assert step(after, needed) > 100 * step(after, twin)


def step(curve, number):
    """By how much the cost rises as a unit goes."""
    place = curve.units.index((number,))
    return curve.costs[place] - (curve.costs[place - 1] if place else 0.0)


def curve_at(model, batch, chooser, kind, layer):
    """The curve of a layer by a method."""
    from deadhead.display.progress import silent
    from deadhead.heads.discover import find_every_site
    from deadhead.shrinking.statistics import collect_with_orders

    frozen = copy.deepcopy(model).requires_grad_(False)
    sites = find_every_site(frozen)
    evidence = Evidence(
        model=frozen,
        places=units_of(discover(frozen, neurons=True)),
        batches=[batch],
        loss=None,
        seed=0,
        progress=silent,
        statistics=collect_with_orders(
            frozen,
            sites,
            [batch],
            kinds=("heads", "neurons"),
            gradients=True,
            by_batch=True,
            progress=silent,
        ),
    )
    curves = chooser().curves(evidence, kind)
    return next(curve for curve in curves if curve.place[2] == layer)


@pytest.mark.parametrize("chooser", [Reconstruction, Fisher, Kwon])
@pytest.mark.parametrize("kind", ["heads", "neurons"])
def test_curves_never_fall_and_name_each_unit_once(chooser, kind):
    model, batch = model_of("causal"), data("causal")
    curve = curve_at(model, batch, chooser, kind, 0)
    assert list(curve.costs) == sorted(curve.costs)
    assert curve.costs[-1] > 0
    units = units_of(discover(model, neurons=True))[kind, "decoder", 0]
    assert sorted(curve.units) == sorted(units)


def test_groups_of_a_grouped_query_model_go_whole():
    model, batch = model_of("causal"), data("causal")
    groups = discover(model).attentions[0].group
    assert groups == 2
    for method in CHOOSERS:
        choice = chosen(model, [batch], method, heads=3)  # rounded up to whole groups
        assert len(choice.heads) == 4
        prune(copy.deepcopy(model), choice.heads)


def test_without_labels_a_loss_or_inputs_suffice(flap):
    model, batch = model_of("classify"), data("classify")
    silence(model, "heads", 1, 2)
    unlabelled = {name: value for name, value in batch.items() if name != "labels"}
    for method in ("auto", "fisher", "kwon", "taylor"):
        assert chosen(model, [unlabelled], method, heads=1, loss="self").heads == (
            Head("encoder", 1, 2),
        )
        with pytest.raises(DataError, match="has no labels") as error:
            chosen(model, [unlabelled], method, heads=1)
        assert 'loss="self"' in (error.value.hint or "")
        assert check_method(method, ["heads"])
    assert chosen(model, [unlabelled], flap, heads=1).heads == (Head("encoder", 1, 2),)
    assert not check_method(flap, ["heads"])
    assert chosen(model, [], "random", heads=1).heads


def test_layers_that_flatten_their_batch_are_read_too():
    """OPT's feed-forward layers read examples x positions rows in one axis."""
    model = tiny("opt").double().eval()
    batch = data("causal")
    together = chosen(model, [batch], "fisher", neurons=20)
    assert chosen(model, singles(batch), "fisher", neurons=20).neurons == together.neurons


def test_random_choices_follow_their_seed():
    model = model_of("tag")
    first, same, other = (chosen(model, [], "random", 4, 20, seed=seed) for seed in (0, 0, 1))
    assert first == same
    assert first.heads != other.heads
    assert first.neurons != other.neurons


def test_mistakes_are_reported_before_the_data_is_read():
    model = model_of("tag")

    def unread():
        raise AssertionError("the data was read")
        yield

    for method, budgets, error, match in (
        ("fischer", counted(model, 2), UnknownName, "Did you mean 'fisher'"),
        ("taylor", counted(model, 0, 2), DeadheadError, "taylor chooses no neurons"),
        ("auto", counted(model, 9), DeadheadError, "at least 0 of 8 heads, got -1"),
        ("auto", [], DeadheadError, "there is no budget"),
        ("auto", counted(model, 2) * 2, DeadheadError, "two budgets name the heads of encoder"),
        ("auto", counted(tiny("gpt2"), 2), DeadheadError, "expects 1 numbers"),
    ):
        with pytest.raises(error, match=match):
            choose(model, unread(), method, budgets=budgets, progress=False)
    with pytest.raises(UnknownName, match="no loss 'selfish'"):
        choose(model, unread(), budgets=counted(model, 2), loss="selfish", progress=False)
    with pytest.raises(DataError, match="the list of batches is empty"):
        chosen(model, [], "auto", heads=2)


@pytest.mark.parametrize("kind", ["tag", "causal"])
def test_several_methods_in_one_pass_choose_what_each_chooses_alone(kind):
    model, batch = model_of(kind), data(kind)
    names = ("reconstruction", "fisher", "random")
    budgets = counted(model, heads=4, neurons=30)
    together = choose_by_each(model, [batch], names, budgets=budgets, progress=False)
    alone = [chosen(model, [batch], name, heads=4, neurons=30) for name in names]
    assert [c.heads for c in together] == [c.heads for c in alone]
    assert [c.neurons for c in together] == [c.neurons for c in alone]
    assert len({c.heads for c in together}) > 1
