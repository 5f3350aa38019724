"""Every claim on small evidence: where it holds, where it does not, and where it is open."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from example_scores import glue
from example_searches import arm
from examples import epochs, layers, weights
from examples_by_claim import CASES

from deadhead.papers.claims import FAILS, HOLDS, OPEN, UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.searches import PAPER_LRP

CLAIMS = all_claims()

ENOUGH = {
    "W15",
    "W16",
    "C-rho",
    "C-p-POS",
    "C-p-NER",
    "C-p-SF",
}  # claims that one item is enough to judge by


def test_every_claim_has_its_cases() -> None:
    assert set(CASES) == set(CLAIMS)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_case_where_it_holds(name: str) -> None:
    verdict = CLAIMS[name].on(CASES[name][0])
    assert verdict.verdict == HOLDS, verdict
    assert verdict.margin is not None
    assert verdict.margin >= 0
    assert all((verdict.numbers, verdict.strength, verdict.trials, verdict.unit))


@pytest.mark.parametrize("name", CLAIMS)
def test_a_case_where_it_does_not(name: str) -> None:
    verdict = CLAIMS[name].on(CASES[name][1])
    assert verdict.verdict == FAILS, verdict
    assert verdict.margin is not None
    assert verdict.margin <= 0
    assert all((verdict.numbers, verdict.strength, verdict.trials))


@pytest.mark.parametrize("name", CLAIMS)
def test_nothing_can_be_said(name: str) -> None:
    for thin in (Evidence(), *([] if name in ENOUGH else [_thin(CASES[name][0])])):
        verdict = CLAIMS[name].on(thin)
        assert (verdict.verdict, verdict.margin, verdict.trials) == (OPEN, None, ()), verdict
        assert re.fullmatch(r"missing: .{12,}", verdict.numbers)


def _thin(whole: Evidence) -> Evidence:
    """The first item of each kind."""
    return Evidence(
        scores=whole.scores[:1],
        searches=whole.searches[:1],
        merged=whole.merged[:1],
        measures=whole.measures[:1],
        rankings=whole.rankings[:1],
        rhos=whole.rhos[:1],
    )


def test_statements_are_sentences_of_their_own() -> None:
    statements = [claim.statement for claim in CLAIMS.values()]
    assert len(set(statements)) == len(statements) == len(CLAIMS) == 108
    assert all(text.endswith(".") and text[0].isupper() for text in statements)


def test_margins_have_the_unit_of_what_they_measure() -> None:
    units = {name: claim.unit for name, claim in CLAIMS.items()}
    points = (
        "W8",
        "W11",
        "C-max-vs-low",
        "C-rand-vs-low",
        "C-single-POS",
        "C-low-ja",
        "C-ranker-cross-lingual",
        "C-overall-mbert",
    )
    cases = (
        "W9",
        "C-rand-NER",
        "C-rand-POS",
        "C-max-NER",
        "C-max-vs-rand",
        "C-count-SF",
        "C-drop-NER",
        "C-low",
        "C-xlmr-POS-cross-lingual",
    )
    assert {name: units[name] for name in points} == dict.fromkeys(points, "points")
    assert {name: units[name] for name in cases} == dict.fromkeys(cases, "cases")
    assert {
        name: units[name] for name in ("W4", "W5", "W16", "C-rho", "C-p-SF", "L-count-NER")
    } == {
        "W4": "BLEU",
        "W5": "BLEU",
        "W16": "rho",
        "C-rho": "rho",
        "C-p-SF": "p",
        "L-count-NER": "pairs",
    }
    uneven = CLAIMS["W8"].on(
        glue(layers(top1=80, top2=80, top3=80, bottom1=79.9, bottom2=79.8, bottom3=79.7))
    )
    assert uneven.margin == pytest.approx(-0.1)  # points, not depths
    clear = CLAIMS["W16"].on(weights(1, 2, 3, 4, 5, remove="random 10"))
    assert clear.margin == pytest.approx(0.3 - 1)  # of a rho, not of a p


def test_two_models_are_not_repeats_of_one() -> None:
    """Each is judged by itself, and the claim has to hold for both."""
    good, bad = (
        Evidence(scores=tuple(replace(f, model=model) for f in CASES["W6"][i].scores))
        for i, model in ((0, "bert-a"), (1, "bert-b"))
    )
    verdict = CLAIMS["W6"].on(good + bad)
    alone = CLAIMS["W6"].on(bad)
    assert (verdict.verdict, verdict.margin) == (FAILS, alone.margin)
    assert verdict.numbers == f"{CLAIMS['W6'].on(good).numbers} | {alone.numbers}"
    assert alone.numbers.startswith("on bert-b: mean loss 2.00 points")
    assert set(verdict.trials) == {
        f.trial for f in (*good.scores, *bad.scores) if f.remove != "none"
    }
    both = CLAIMS["W6"].on(
        good + Evidence(scores=tuple(replace(f, model="bert-b") for f in CASES["W6"][0].scores))
    )
    assert both.verdict == HOLDS
    assert (
        CLAIMS["W6"].on(good + Evidence(scores=bad.scores[:1])).verdict == HOLDS
    )  # of bert-b there is not enough to say


def test_too_few_layers_to_show_a_pattern() -> None:
    """Chance puts five layers in order in 2 of 120 cases: clear for one run, but not for four."""
    evidence = weights(1, 2, 3, 4, 5, remove="random 10")
    assert CLAIMS["W16"].on(evidence).verdict == FAILS
    assert CLAIMS["W16"].on(evidence + evidence + evidence + evidence).verdict == OPEN


def test_what_has_not_moved_since_the_first_epoch_is_whole_after_it() -> None:
    """A training that is stuck counts like any other."""
    assert "one epoch gives 100.0 %" in CLAIMS["M16"].on(epochs(80.0, 80.0)).numbers


@pytest.mark.parametrize("setting", ["cross-lingual", "multi-lingual"])
def test_a_comparison_of_rankers_needs_both(setting: str) -> None:
    """With the gain by gradient as stated, LRP is needed too; another gain refutes it alone."""
    both = CASES[f"C-ranker-{setting}"][0]
    alone = replace(both, searches=tuple(s for s in both.searches if s.rank != PAPER_LRP))
    verdict = CLAIMS[f"C-ranker-{setting}"].on(alone)
    assert (verdict.verdict, verdict.margin) == (OPEN, None)
    assert "by LRP" in verdict.numbers
    other = replace(
        alone,
        searches=tuple(
            replace(s, arms={"lowest": arm(s.arms["lowest"].gain + 9.0)}) for s in alone.searches
        ),
    )
    assert CLAIMS[f"C-ranker-{setting}"].on(other).verdict == FAILS


@pytest.mark.parametrize("name", ["M10", "M12", "M13"])
def test_languages_in_no_class_are_not_counted(name: str) -> None:
    """Dutch is in none of the paper's word-order classes, so no mean and no permutation has it."""
    whole = CASES[name][0]
    dutch = Evidence(
        scores=tuple(
            replace(f, target="nl", trial=f.trial + "nl") for f in whole.scores if f.target == "en"
        )
    )
    assert "11 languages;" in CLAIMS[name].on(whole).strength
    verdict = CLAIMS[name].on(whole + dutch)
    assert "11 of 12 languages, those the paper puts in a class;" in verdict.strength
    assert verdict.margin == CLAIMS[name].on(whole).margin


def test_repeats_give_a_spread() -> None:
    whole = CASES["W6"][0]
    again = Evidence(
        scores=tuple(replace(f, value=f.value + 0.8, trial=f.trial + "b") for f in whole.scores)
    )
    assert (
        CLAIMS["W6"].on(whole).strength
        == "all 4 cases it speaks of, no repeats; one seed: no spread"
    )
    verdict = CLAIMS["W6"].on(whole + again)
    wide = (
        2.776 * (0.8 / 2**0.5 / 2**0.5) / 4**0.5
    )  # t of four degrees of freedom, the error of a cell, the mean of four
    spread = f"up to 2 repeats a cell, sd {100 * 0.8 / 2**0.5 / (79.5 + 0.4):.2f} % of the mean"
    assert (
        verdict.strength
        == f"all 4 cases it speaks of, 95 % interval +-{wide:.2f} by repeats; {spread}"
    )
    assert (verdict.verdict, verdict.margin) == (
        UNSHOWN,
        pytest.approx(0.5 - wide, abs=1e-3),
    )  # half a point within, give or take
