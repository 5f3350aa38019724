"""L0: the hard-concrete formulas, both scalings of the penalty, the mask that comes of it, and a model left alone."""

import copy
import math

import planted_truth
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted_truth import USELESS, assert_truth, batches, planted
from ranker_cases import scores_of

from architectures.tiny import tiny
from deadhead.heads import discover, prune
from deadhead.layout import Head
from deadhead.rankers import rank
from deadhead.rankers.hard_concrete import chance_open, sampled, settled_gate
from deadhead.rankers.l0 import L0
from deadhead.registry.options import OptionError
from deadhead.verify.inputs import batch_for

QUICK = {"steps": 12, "penalty": 0.2}


def scored(ranker, model=None, seed=0):
    model = planted() if model is None else model
    return scores_of(ranker, model, batches(), seed=seed)


@given(st.floats(-4, 4))
def test_chance_open_is_how_often_a_gate_is_open(log_a):
    uniform = (torch.arange(20001) + 0.5) / 20001
    gates = sampled(torch.tensor(log_a), uniform)
    assert float((gates > 0).double().mean()) == pytest.approx(
        float(chance_open(torch.tensor(log_a))), abs=2e-4
    )
    assert float(gates.min()) >= 0
    assert float(gates.max()) <= 1


def test_the_settled_gate_is_shut_and_wholly_open_where_the_paper_says():
    edge = math.log(11)  # 2.398
    gates = settled_gate(
        torch.tensor([-edge - 1e-3, -edge + 1e-3, 0.0, edge - 1e-3, edge + 1e-3, 2.5])
    )
    assert gates[0] == 0
    assert 0 < gates[1] < 1e-3
    assert gates[2] == pytest.approx(0.5)
    assert 1 > gates[3] > 1 - 1e-3
    assert gates[4] == gates[5] == 1


def test_the_two_scalings_differ_by_the_number_of_layers():
    model = tiny("marian").requires_grad_(False)  # 2 layers in each of 3 blocks
    batch = batch_for(model)
    data = [{**batch, "labels": batch["decoder_input_ids"].clone()}]
    layout = discover(model)
    by_layers, by_heads, same = (
        scores_of(L0(steps=8, penalty=penalty, scaling=scaling), model, data)
        for penalty, scaling in ((6.0, "layers"), (1.0, "heads"), (6.0, "heads"))
    )
    assert by_layers == pytest.approx(by_heads, rel=1e-5)
    assert max(abs(by_layers[h] - same[h]) for h in layout) > 1e-3


def test_a_sweep_is_the_mean_of_its_runs():
    low, high, both = (scored(L0(steps=12, penalty=penalty)) for penalty in (0.1, 2.0, [0.1, 2.0]))
    assert both == pytest.approx({head: (low[head] + high[head]) / 2 for head in low})
    assert both.details["runs"] == low.details["runs"] + high.details["runs"]
    assert low != high


def test_planted_truth_is_found_and_the_mask_keeps_the_score():
    notes: list[str] = []
    model = planted()
    ranker = L0(penalty=(0.05, 0.4), steps=120)
    scores = scores_of(
        ranker,
        model,
        batches(),
        progress=lambda done, total, note="": notes.append(f"{done}/{total} {note}"),
    )
    assert_truth(scores)
    mild = scores.details["runs"][0]
    assert {Head.parse(name) for name in mild["closed"]} == set(USELESS)
    assert mild["open"] == 5
    assert notes[-1].startswith("240/240 penalty 0.4: ")
    pruned = prune(copy.deepcopy(model), mild["closed"])
    test = planted_truth.sentences(64, 77)
    assert torch.equal(pruned(**test).logits.argmax(-1), test["labels"])
    assert scores.details["runs"][1]["open"] < mild["open"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "`steps` of l0 expects a whole number from 1, got 0"),
        ({"penalty": -1}, "`penalty` of l0 expects a number from 0 .* got -1"),
        ({"penalty": []}, r"`penalty` of l0 .* a list of numbers from 0, got \[\]"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        L0(**options)
    with pytest.raises(OptionError, match="Did you mean 'layers'"):
        L0(scaling="layer")


@pytest.mark.parametrize("train_weights", [False, True])
def test_the_default_precision_changes_nothing(case, train_weights):
    """In float64, torch would draw other noise from the same seed."""
    setup, options = case("tag"), {"steps": 20, "train_weights": train_weights, "progress": False}
    expected = rank(setup.model, [setup.batch], "l0", **options)
    torch.set_default_dtype(torch.float64)
    try:
        actual = rank(case("tag").model, [setup.batch], "l0", **options)
    finally:
        torch.set_default_dtype(torch.float32)
    assert actual.scores == expected.scores
    other = rank(case("tag").model, [setup.batch], "l0", seed=1, **options)
    assert other.scores != expected.scores  # the twin: the noise does matter
