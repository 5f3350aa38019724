"""L0: the hard-concrete formulas, the mask that comes of it, and a model left alone."""

import copy
import math

import planted_truth
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted_truth import USELESS, assert_truth, batches, planted
from ranker_cases import scores_of

from deadhead.heads import prune
from deadhead.layout import Head
from deadhead.rankers import rank
from deadhead.rankers.hard_concrete import chance_open, sampled, settled_gate
from deadhead.rankers.l0 import L0
from deadhead.registry.options import OptionError


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


def test_planted_truth_is_found_and_the_mask_keeps_the_score():
    notes: list[str] = []
    model = planted()
    mild, strict = (
        scores_of(
            L0(penalty=penalty, steps=120),
            model,
            batches(),
            progress=lambda done, total, note="": notes.append(f"{done}/{total} {note}"),
        )
        for penalty in (0.05, 0.4)
    )
    assert_truth({head: mild[head] + strict[head] for head in mild})
    closed = mild.details["closed"]
    assert {Head.parse(name) for name in closed} == set(USELESS)
    assert "120/120 5 of 8 heads open" in notes
    pruned = prune(copy.deepcopy(model), closed)
    test = planted_truth.sentences(64, 77)
    assert torch.equal(pruned(**test).logits.argmax(-1), test["labels"])
    assert len(strict.details["closed"]) > len(closed)


def test_a_penalty_below_0_is_refused():
    with pytest.raises(OptionError, match="`penalty` of l0 expects a number from 0, got -1"):
        L0(penalty=-1)


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
