"""A repair is one entry of `REPAIRS`: everything that takes the name of one finds it there."""

import warnings

import pytest
import torch
from models_to_shrink import QUIET, build, data

from deadhead.errors import Deprecation
from deadhead.heads import prune
from deadhead.shrinking import REPAIRS, Repair, refit, shrink
from deadhead.shrinking.held_out import split_examples
from deadhead.shrinking.repairs import refitting_by
from deadhead.studies import load

TUNED = ("mean", "scales")


@pytest.fixture
def tuned():
    """A repair of our own: a bias and a factor for each unit."""
    REPAIRS["tuned"] = Repair(
        help="a bias and a factor for each unit", plan=refitting_by(*TUNED), new_biases="cut"
    )
    yield "tuned"
    del REPAIRS["tuned"]


def same(first, second):
    weights = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in weights)


def test_a_name_in_the_registry_is_enough(tuned):
    model, by_hand, unrepaired = build(), build(), build()
    report = shrink(model, data(), heads=0.5, repair=tuned, **QUIET)
    assert {row.candidate for row in report.layers} <= {"nothing", *TUNED}
    fit, _ = split_examples(data())
    refit(by_hand, fit, report.choice.heads, candidates=TUNED, progress=False)
    assert same(model, by_hand)
    assert not same(model, prune(unrepaired, report.choice.heads))
    assert load("shrink", [f"shrink={{heads: 0.5, repair: {tuned}}}"]).trials


def test_the_biases_that_a_repair_adds_are_saved_elsewhere(tuned):
    """Llama has no biases: the target holds with those that this repair adds."""
    model = build("llama")
    before = sum(p.numel() for p in model.parameters())
    report = shrink(model, data("llama"), parameters="60%", repair=tuned, **QUIET)
    assert any(row.candidate in TUNED for row in report.layers)
    assert sum(p.numel() for p in model.parameters()) <= 0.6 * before


def test_the_old_name_works_and_says_the_new_one():
    old, new = build(), build()
    with pytest.warns(Deprecation, match=r"compensation=\.\.\.\) is now shrink\(repair=") as caught:
        shrink(old, data(), heads=2, compensation="mean", **QUIET)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", Deprecation)
        shrink(new, data(), heads=2, repair="mean", **QUIET)
    assert same(old, new)
