"""What numbers show about a statement: by hand, with dice, and in single claims."""

import random
from dataclasses import replace

import pytest
from example_scores import fact, facts, glue
from example_searches import gains, merged, on_tables, strings, triples
from examples import bleu, embeddings, layers

from deadhead.papers.claims import FAILS, HOLDS, LUCKY, UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.rule import (
    above,
    as_stated,
    at_least,
    by_repeats,
    count_as_stated,
    every,
    level,
    most,
    over_repeats,
    worst,
)
from deadhead.papers.claims.verdict import Outcome

CLAIMS = all_claims()
WHOLE = {"whole": True}
NOISY = {"whole": True, "noise": 0.5}
COUNT = (88, 96)


@pytest.mark.parametrize(
    ("judge", "arguments", "options", "verdict"),
    [
        # A sample has an interval, and may be too small for one.
        (as_stated, ([-8.0, 1.0, 9.0], 0.91, 0.23), {}, UNSHOWN),
        (as_stated, ([0.90, 0.91, 0.92], 0.91, 0.23), {}, HOLDS),
        (as_stated, ([1.90, 1.91, 1.92], 0.91, 0.23), {}, FAILS),
        (as_stated, ([1.1, 1.2, 1.3], 0.91, 0.23), {}, UNSHOWN),  # 0.95 to 1.45, up to 1.14
        (as_stated, ([0.9, 0.92], 0.91, 0.23), {}, UNSHOWN),
        # With all the cases of the statement the mean is exact, unless its repeats differ.
        (as_stated, ([-8.0, 1.73, 9.0], 0.91, 0.23), WHOLE, HOLDS),
        (as_stated, ([0.9] * 3, 0.91, 0.23), NOISY, UNSHOWN),
        (as_stated, ([1.9] * 3, 0.91, 0.23), NOISY, FAILS),
        (above, ([1.0, 1.1, 1.2], 0.0), {}, HOLDS),
        (above, ([-1.0, -1.1, -1.2], 0.0), {}, FAILS),
        (above, ([-1.0, 1.0, 3.0], 0.0), WHOLE, HOLDS),
        (above, ([0.0, 0.0], 0.0), WHOLE, FAILS),
        (count_as_stated, (89, 96, *COUNT), WHOLE, HOLDS),  # one pair more
        (count_as_stated, (90, 96, *COUNT), WHOLE, FAILS),
        (count_as_stated, (11, 12, *COUNT), {}, UNSHOWN),
        (at_least, (13, 16, 14 / 16), WHOLE, FAILS),
        (at_least, (14, 16, 14 / 16), WHOLE, HOLDS),
        (at_least, (16, 16, 14 / 16), {}, UNSHOWN),  # 79 % or more
        (most, (6, 12), WHOLE, FAILS),
        (most, (7, 12), WHOLE, HOLDS),
        (most, (11, 12), {}, HOLDS),
        # Five that agree may do so by chance.
        (every, ([1.0] * 5,), {}, UNSHOWN),
        (every, ([1.0] * 6,), {}, HOLDS),
        (every, ([1.0] * 4,), WHOLE, HOLDS),
        (every, ([0.0] * 6,), {"ties": True}, HOLDS),
        (every, ([0.0] * 6,), {}, FAILS),
        # A counterexample refutes it only beyond chance, or beyond rounding.
        (every, ([1.0] * 40 + [-0.1],), {}, UNSHOWN),
        (every, ([1.0, -0.5],), {"noise": [0.1, 0.4]}, FAILS),
        (every, ([1.0, -0.5],), {"noise": [0.1, None]}, UNSHOWN),
        (every, ([1.0, -0.5],), {"noise": [0.1, 0.6], "whole": True}, UNSHOWN),
        (every, ([-1.0, -1.1, -0.9, -1.0, 0.1],), {}, FAILS),  # as their mean does
        (every, ([1.0, -0.005],), WHOLE, UNSHOWN),
        (every, ([1.0, -0.02],), WHOLE, FAILS),
        # Level is more than mixed signs.
        (level, ([0.4, -0.5, 0.3, -0.3], 1.0), WHOLE, HOLDS),
        (level, ([2.7, -1.8, -16.5], 1.0), WHOLE, FAILS),
        (level, ([0.4, 0.5, 0.3, 0.3], 1.0), WHOLE, FAILS),  # small, but all one way
    ],
)
def test_what_numbers_show(judge, arguments, options, verdict):
    outcome = judge(*arguments, **options)
    assert outcome.verdict == verdict
    assert outcome.margin >= 0 if verdict == HOLDS else outcome.margin <= 0 or verdict == UNSHOWN


def test_the_clear_counterexample_gives_the_margin():
    assert every([-0.1, -0.02], noise=[0.2, 0.01]) == Outcome(FAILS, -0.02, "n = 2")


def test_of_several_parts_the_worst_counts():
    holds, unshown, fails = Outcome(HOLDS, 1.0), Outcome(UNSHOWN, -9.0), Outcome(FAILS, -0.1)
    assert worst([holds, unshown, fails]) == fails
    assert worst([holds, unshown]) == unshown


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        # Variance 1 of the one, 1 of the other, 4 degrees of freedom: 2.776 * sqrt(2 / 3).
        (by_repeats([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]), 2.267),
        (by_repeats([[1.0, 2.0, 3.0], [5.0]]), 4.303 * (4 / 3) ** 0.5),  # scatters as the other
        (by_repeats([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]], 0.5), 2.267 / 2),
        (by_repeats([[1.0], [5.0]]), None),
        (over_repeats([[1.0], [2.0]]), None),
        (over_repeats([[0.0, 1.0, 2.0]]), 4.303 / 3**0.5),
        (over_repeats([[0.0, 1.0, 2.0]] * 4), 2.306 / 3**0.5 / 2),  # errors cancel out in part
        (over_repeats([[0.0, 1.0, 2.0]] * 4, shared=True), 4.303 / 3**0.5),  # or do not
        (over_repeats([[0.0, 1.0, 2.0]] * 4, sides=2), 2.306 / 3**0.5),
    ],
)
def test_noise_of_repeats_by_hand(width, expected):
    assert width == (expected if expected is None else pytest.approx(expected, abs=1e-3))


def test_noise_does_not_confirm():
    """Numbers that have nothing to do with the statement hold in 1 of 20 tries at most."""
    rng = random.Random(0)
    draw = lambda: [rng.gauss(0.0, 2.0) for _ in range(4)]  # noqa: E731
    for judge in (
        lambda v: as_stated(v, 0.91, 0.23),
        lambda v: above(v, 0.0),
        lambda v: level(v, 0.2),
        every,
    ):
        assert sum(judge(draw()).verdict == HOLDS for _ in range(400)) <= 20


# --- in claims


def odd_against_top(*leads):
    runs = (glue(layers(odd6=70 + lead, top6=70, bottom6=60), ("sst2",)) for lead in leads)
    return sum(runs, Evidence())


def draws_lose(*points):
    kept = (fact("wmt14", "stratified 1", 30 - value, 87.5, "en-ru") for value in points)
    return facts(fact("wmt14", "none", 30.0, target="en-ru"), *kept)


def ec_is_best(targets, others):
    names = ("en", "de", "ar", "he", "zh")[: targets + others]
    return merged("pos", names[:targets]) + merged("pos", names[targets:], MD=60.0)


def apart_before(value):
    return embeddings(0.2, 0.3, 2.0, (value, value - 0.3))


ENDS = {"top1": 72.7, "top2": 68.2, "top3": 53.5, "bottom1": 70, "bottom2": 70, "bottom3": 70}
SCATTERED, EQUAL = (-2.0, 0.0, 2.0), (0.0,)
ONE_PAIR = Evidence(scores=tuple(s for s in bleu(s75=29.1).scores if s.target == "en-de"))
GAIN = "C-mean-POS-mbert-cross-lingual"
SEMITIC = on_tables("pos", 0.91, model="bert-base-multilingual-cased")  # two pairs are all of them


@pytest.mark.parametrize(
    ("name", "evidence", "verdict", "numbers"),
    [
        ("W2", bleu(s75=29.1), HOLDS, ""),
        ("W2", ONE_PAIR, UNSHOWN, ""),  # a single pair shows no bound for all
        ("W3", draws_lose(0.62, 1.62, 2.62), UNSHOWN, ""),
        ("W4", strings(3.0, -2.0), UNSHOWN, ""),
        ("W5", triples(0, 1, 1, 1), FAILS, ""),
        ("W5", triples(0, 1, 1, 1, repeats=SCATTERED), UNSHOWN, ""),
        ("W5", triples(0, 1, 2, 2, repeats=EQUAL), UNSHOWN, ""),  # by luck in four of nine tries
        ("W5", triples(0, 1, 2, 2), HOLDS, ""),
        ("W8", glue(layers(**ENDS), ("sst2",)), UNSHOWN, "1: +2.70, 2: -1.80, 3: -16.50"),
        ("W11", odd_against_top(-0.4, 0.4, -0.06), UNSHOWN, ""),
        ("W11", odd_against_top(-2.0, -2.1, -1.9), FAILS, ""),
        ("M18", apart_before(0.2), FAILS, ""),
        (GAIN, gains([-8.0, 1.0, 9.0]), UNSHOWN, "mean gain 0.667 over 3 pairs (stated: 0.91)"),
        ("C-fam-Semitic-mbert", SEMITIC, HOLDS, "mean gain 0.910 over 2 pairs (stated: 0.91)"),
        ("C-EC-POS", ec_is_best(5, 0), FAILS, ""),
        ("C-EC-POS", ec_is_best(1, 2), UNSHOWN, ""),
    ],
)
def test_in_a_claim(name, evidence, verdict, numbers):
    result = CLAIMS[name].on(evidence)
    assert result.verdict == verdict, result
    assert result.numbers.endswith(numbers)


@pytest.mark.parametrize(
    ("other", "whole"),
    [({"model": "transformer-mini"}, False), ({"target": "en-de"}, False), ({}, True)],
)
def test_five_percentages_of_another_model_or_pair_are_a_sample(other, whole):
    """Table 2 has one model and one language pair; five others are not all of its cases."""
    scores = strings(0.3, -0.2, 0.1, -0.3, 0.2).scores
    result = CLAIMS["W4"].on(facts(*(replace(score, **other) for score in scores)))
    assert ("all 5 cases" in result.strength) == whole


def test_three_ways_to_merge_are_one_case_of_a_target():
    """MD, SD and EC share trainings: three targets are not nine cases, and may be luck."""
    verdict = CLAIMS["C-multi-all"].on(merged(targets=("en", "de", "zh")))
    assert (verdict.verdict, verdict.follows) == (UNSHOWN, LUCKY)
    assert "into 3 of 3 targets" in verdict.numbers
    assert verdict.strength.startswith("n = 3: as many would agree by chance")


@pytest.mark.parametrize(
    ("setting", "verdict"), [("cross-lingual", HOLDS), ("multi-lingual", FAILS)]
)
def test_every_language_counts_where_the_paper_excepts_none(setting, verdict):
    """XLM-R behind into zh and ja refutes nothing across languages, but does with the target."""
    both = on_tables("pos", 1.0, setting=setting).searches
    behind = tuple(
        replace(s, unpruned=45.0 if {s.source, s.target} & {"zh", "ja"} else 55.0)
        if "xlm" in s.model
        else s
        for s in both
    )
    assert CLAIMS[f"C-xlmr-POS-{setting}"].on(Evidence(searches=behind)).verdict == verdict
