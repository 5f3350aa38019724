"""Every function of a claim on small evidence: where it holds, does not hold, and is open."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from example_scores import facts, glue
from example_searches import arm
from examples import epochs, layers, weights
from examples_by_claim import CASES

from deadhead.papers.claims import FAILS, HOLDS, OPEN, UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.searches import PAPER_LRP

CLAIMS = all_claims()
ENOUGH = {"W15", "W16", "C-rho", "C-p-POS", "C-p-SF"}  # one item is enough to judge these by


def function(claim):
    judge: Any = claim.judge
    while isinstance(judge, partial):
        judge = judge.func
    return judge  # type: ignore[no-any-return]


def test_every_function_has_its_cases():
    assert {function(CLAIMS[name]) for name in CASES} == set(map(function, CLAIMS.values()))


@pytest.mark.parametrize("name", CASES)
def test_it_holds_fails_and_is_open(name):
    holds, fails = (CLAIMS[name].on(case) for case in CASES[name])
    assert holds.verdict == HOLDS, holds
    assert fails.verdict == FAILS, fails
    for verdict in (holds, fails):
        assert all((verdict.numbers, verdict.strength, verdict.trials, verdict.unit))
    assert holds.margin is not None
    assert fails.margin is not None
    assert holds.margin >= 0 >= fails.margin
    for thin in (Evidence(), *([] if name in ENOUGH else [_thin(CASES[name][0])])):
        verdict = CLAIMS[name].on(thin)
        assert (verdict.verdict, verdict.margin, verdict.trials) == (OPEN, None, ()), verdict
        assert re.fullmatch(r"missing: .{12,}", verdict.numbers)


def _thin(whole):
    """The first item of each kind."""
    parts = ("scores", "searches", "merged", "measures", "rankings", "rhos")
    return Evidence(**{part: getattr(whole, part)[:1] for part in parts})


def test_margins_have_the_unit_of_what_they_measure():
    ends = {"top1": 80, "top2": 80, "top3": 80, "bottom1": 79.9, "bottom2": 79.8, "bottom3": 79.7}
    assert CLAIMS["W8"].on(glue(layers(**ends))).margin == pytest.approx(-0.1)  # points
    clear = CLAIMS["W16"].on(weights(1, 2, 3, 4, 5, remove="random 10"))
    assert clear.margin == pytest.approx(0.3 - 1)  # of a rho, not of a p


def test_two_models_are_not_repeats_of_one():
    """Each is judged by itself, and the claim has to hold for both."""
    judge = CLAIMS["W6"].on
    (good, better), (bad, _) = (
        [facts(*(replace(s, model=model) for s in case.scores)) for model in models]
        for case, models in zip(CASES["W6"], (("bert-a", "bert-b"), ("bert-b", "")), strict=True)
    )
    verdict, alone = judge(good + bad), judge(bad)
    assert (verdict.verdict, verdict.margin) == (FAILS, alone.margin)
    assert verdict.numbers == f"{judge(good).numbers} | {alone.numbers}"
    assert alone.numbers.startswith("on bert-b: mean loss 2.00 points")
    pruned = {s.trial for s in (*good.scores, *bad.scores) if s.remove != "none"}
    assert set(verdict.trials) == pruned
    assert judge(good + better).verdict == HOLDS
    too_little = Evidence(scores=bad.scores[:1])
    assert judge(good + too_little).verdict == HOLDS


def test_too_few_layers_to_show_a_pattern():
    """Chance puts five layers in order in 2 of 120 cases: clear for one run, but not for four."""
    evidence = weights(1, 2, 3, 4, 5, remove="random 10")
    assert CLAIMS["W16"].on(evidence).verdict == FAILS
    assert CLAIMS["W16"].on(evidence + evidence + evidence + evidence).verdict == OPEN


def test_what_has_not_moved_since_the_first_epoch_is_whole_after_it():
    """A training that is stuck counts like any other."""
    assert "one epoch gives 100.0 %" in CLAIMS["M16"].on(epochs(80.0, 80.0)).numbers


def test_a_comparison_of_rankers_needs_both():
    """With the gain by gradient as stated, LRP is needed too; another gain refutes it alone."""
    judge, both = CLAIMS["C-ranker-cross-lingual"].on, CASES["C-ranker-cross-lingual"][0]
    alone = tuple(s for s in both.searches if s.rank != PAPER_LRP)
    verdict = judge(Evidence(searches=alone))
    assert (verdict.verdict, verdict.margin, "by LRP" in verdict.numbers) == (OPEN, None, True)
    other = tuple(replace(s, arms={"lowest": arm(s.gain() + 9.0)}) for s in alone)
    assert judge(Evidence(searches=other)).verdict == FAILS


@pytest.mark.parametrize("name", ["M10", "M12", "M13"])
def test_languages_in_no_class_are_not_counted(name):
    """Dutch is in none of the paper's word-order classes, so no mean and no permutation has it."""
    whole = CASES[name][0]
    english = [s for s in whole.scores if s.target == "en"]
    dutch = facts(*(replace(s, target="nl", trial=s.trial + "nl") for s in english))
    before, after = CLAIMS[name].on(whole), CLAIMS[name].on(whole + dutch)
    assert "11 languages;" in before.strength
    assert "11 of 12 languages, those the paper puts in a class;" in after.strength
    assert after.margin == before.margin


def test_repeats_give_a_spread():
    whole, judge = CASES["W6"][0], CLAIMS["W6"].on
    again = (replace(s, value=s.value + 0.8, trial=s.trial + "b") for s in whole.scores)
    known = "all 4 cases it speaks of"
    assert judge(whole).strength == f"{known}, no repeats; one seed: no spread"
    verdict = judge(whole + facts(*again))
    # Student's t of four degrees of freedom, the error of a cell, the mean of four.
    wide = 2.776 * (0.8 / 2**0.5 / 2**0.5) / 4**0.5
    spread = f"up to 2 repeats a cell, sd {100 * 0.8 / 2**0.5 / (79.5 + 0.4):.2f} % of the mean"
    assert verdict.strength == f"{known}, 95 % interval +-{wide:.2f} by repeats; {spread}"
    assert (verdict.verdict, verdict.margin) == (UNSHOWN, pytest.approx(0.5 - wide, abs=1e-3))
