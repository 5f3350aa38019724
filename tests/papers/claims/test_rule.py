"""What numbers show about a statement: by hand, with dice, and in single claims."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from example_scores import MBERT, XLMR, fact, facts, glue
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


@pytest.mark.parametrize(
    ("values", "stated", "verdict"),
    [
        ([-8.0, 1.0, 9.0], 0.91, UNSHOWN),  # the number lies in the interval, and so does any other
        ([0.90, 0.91, 0.92], 0.91, HOLDS),
        ([0.70, 0.91, 1.12], 0.91, UNSHOWN),  # the mean is right, the interval too wide
        ([1.90, 1.91, 1.92], 0.91, FAILS),
        ([1.1, 1.2, 1.3], 0.91, UNSHOWN),  # 0.95 to 1.45, where up to 1.14 would do
    ],
)
def test_a_sample_has_an_interval(values: list[float], stated: float, verdict: str) -> None:
    outcome = as_stated(values, stated, 0.25 * stated)
    assert outcome.verdict == verdict
    assert (outcome.margin >= 0) == (verdict == HOLDS)


def test_the_whole_of_the_cases_has_none() -> None:
    """With all the pairs of the statement, the mean is exact, however different the pairs are."""
    for values, verdict in (([-8.0, 1.73, 9.0], HOLDS), ([-8.0, 1.0, 12.0], FAILS)):
        assert as_stated(values, 0.91, 0.23, whole=True).verdict == verdict
    assert (
        as_stated([0.9] * 3, 0.91, 0.23, whole=True, noise=0.5).verdict == UNSHOWN
    )  # but its repeats differ
    assert as_stated([1.9] * 3, 0.91, 0.23, whole=True, noise=0.5).verdict == FAILS


def test_too_few_for_an_interval() -> None:
    assert as_stated([0.9, 0.92], 0.91, 0.2) == Outcome(
        UNSHOWN, pytest.approx(0.2), "n = 2: no interval"
    )
    assert above([5.0], 0.0) == Outcome(UNSHOWN, 5.0, "n = 1: no interval")


def test_above() -> None:
    for values, verdict in (
        ([1.0, 1.1, 1.2], HOLDS),
        ([-1.0, 1.0, 3.0], UNSHOWN),
        ([-1.0, -1.1, -1.2], FAILS),
    ):
        assert above(values, 0.0).verdict == verdict
    assert above([-1.0, 1.0, 3.0], 0.0, whole=True).verdict == HOLDS
    assert above([0.0, 0.0], 0.0, whole=True).verdict == FAILS


@pytest.mark.parametrize(
    ("count", "cases", "whole", "verdict"),
    [
        (88, 96, True, HOLDS),
        (89, 96, True, HOLDS),  # one pair more
        (90, 96, True, FAILS),
        (11, 12, False, UNSHOWN),
        (6, 12, False, FAILS),
        (880, 960, False, HOLDS),
    ],
)
def test_counts(count: int, cases: int, whole: bool, verdict: str) -> None:
    assert count_as_stated(count, cases, 88, 96, whole).verdict == verdict


def test_shares_and_majorities() -> None:
    assert [at_least(n, 16, 14 / 16, whole=True).verdict for n in (13, 14, 16)] == [
        FAILS,
        HOLDS,
        HOLDS,
    ]
    assert [at_least(n, 16, 14 / 16).verdict for n in (8, 14, 16)] == [
        FAILS,
        UNSHOWN,
        UNSHOWN,
    ]  # 16 of 16: 79 % or more
    assert [most(n, 12, whole=True).verdict for n in (6, 7)] == [FAILS, HOLDS]
    assert [most(n, 12).verdict for n in (1, 7, 11)] == [FAILS, UNSHOWN, HOLDS]


def test_every_one_of_few_would_agree_by_chance() -> None:
    assert [every([1.0] * n).verdict for n in (1, 5, 6)] == [UNSHOWN, UNSHOWN, HOLDS]
    assert every([1.0] * 4, whole=True).verdict == HOLDS
    assert [every([0.0] * 6, ties=ties).verdict for ties in (True, False)] == [HOLDS, FAILS]


def test_a_counterexample_refutes_only_beyond_chance() -> None:
    assert every([1.0] * 40 + [-0.1]).verdict == UNSHOWN  # without repeats
    assert [every([1.0, -0.5], noise=[0.1, width]).verdict for width in (0.4, 0.6)] == [
        FAILS,
        UNSHOWN,
    ]
    assert every([1.0, -0.5], noise=[0.1, None]).verdict == UNSHOWN
    assert every([-0.1, -0.02], noise=[0.2, 0.01]) == Outcome(
        FAILS, -0.02, "n = 2"
    )  # the smaller one is the clear one
    assert (
        every([-1.0, -1.1, -0.9, -1.0, 0.1]).verdict == FAILS
    )  # most go the other way: so does their mean
    assert [every([1.0, lead], whole=True).verdict for lead in (-0.005, -0.02)] == [
        UNSHOWN,
        FAILS,
    ]  # rounding, and more
    assert every([1.0, -0.5], whole=True, noise=[0.1, 0.6]).verdict == UNSHOWN


def test_the_interval_of_a_difference_of_cells() -> None:
    """By hand: variance 1 of the one, 1 of the other, 4 degrees of freedom, 2.776 * sqrt(2 / 3)."""
    assert by_repeats([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]) == pytest.approx(2.267, abs=1e-3)
    assert by_repeats([[1.0, 2.0, 3.0], [5.0]]) == pytest.approx(
        4.303 * (4 / 3) ** 0.5, abs=1e-3
    )  # scatters as the other
    assert by_repeats([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]], 0.5) == pytest.approx(2.267 / 2, abs=1e-3)
    assert by_repeats([[1.0], [5.0]]) is None


@pytest.mark.parametrize(
    ("leads", "verdict"),
    [((-0.02,), UNSHOWN), ((-0.4, 0.4, -0.06), UNSHOWN), ((-2.0, -2.1, -1.9), FAILS)],
)
def test_noise_does_not_refute_that_odd_layers_are_better_to_cut(
    leads: tuple[float, ...], verdict: str
) -> None:
    result = CLAIMS["W11"].on(
        sum(
            (glue(layers(odd6=70 + lead, top6=70, bottom6=60), ("sst2",)) for lead in leads),
            Evidence(),
        )
    )
    assert result.verdict == verdict, result


def test_noise_does_not_refute_that_each_block_is_best_somewhere() -> None:
    assert CLAIMS["W5"].on(triples(0, 1, 1, 1, repeats=(0.0,))).verdict == FAILS
    assert CLAIMS["W5"].on(triples(0, 1, 1, 1)).verdict == FAILS
    assert CLAIMS["W5"].on(triples(0, 1, 1, 1, repeats=(-2.0, 0.0, 2.0))).verdict == UNSHOWN


def test_level_is_more_than_mixed_signs() -> None:
    assert level([0.4, -0.5, 0.3, -0.3], 1.0, whole=True).verdict == HOLDS
    assert level([2.7, -1.8, -16.5], 1.0, whole=True).verdict == FAILS
    assert level([2.7, -1.8, -16.5], 1.0).verdict == UNSHOWN
    assert level([0.4, 0.5, 0.3, 0.3], 1.0, whole=True).verdict == FAILS  # small, but all one way
    assert level([5.0, 5.1, 5.2, 4.9], 1.0).verdict == FAILS


def test_of_several_parts_the_worst_counts() -> None:
    holds, unshown, fails = Outcome(HOLDS, 1.0), Outcome(UNSHOWN, -9.0), Outcome(FAILS, -0.1)
    assert worst([holds, unshown, fails]) == fails
    assert worst([holds, unshown]) == unshown


def test_noise_of_repeats_by_hand() -> None:
    assert over_repeats([[1.0], [2.0]]) is None
    assert over_repeats([[0.0, 1.0, 2.0]]) == pytest.approx(4.303 / 3**0.5, abs=1e-3)
    assert over_repeats([[0.0, 1.0, 2.0]] * 4) == pytest.approx(
        2.306 / 3**0.5 / 2, abs=1e-3
    )  # errors cancel out in part
    assert over_repeats([[0.0, 1.0, 2.0]] * 4, shared=True) == pytest.approx(
        4.303 / 3**0.5, abs=1e-3
    )  # or do not
    assert over_repeats([[0.0, 1.0, 2.0]] * 4, sides=2) == pytest.approx(
        2 * 2.306 / 3**0.5 / 2, abs=1e-3
    )


def test_noise_does_not_confirm() -> None:
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


def test_a_mean_gain_of_three_noisy_pairs() -> None:
    verdict = CLAIMS["C-mean-POS-mbert-cross-lingual"].on(gains([-8.0, 1.0, 9.0]))
    assert (verdict.verdict, verdict.numbers) == (
        UNSHOWN,
        "mean gain 0.667 over 3 pairs (stated: 0.91)",
    )


def test_two_pairs_are_enough_where_there_are_no_more() -> None:
    """Arabic and Hebrew, in two settings, are all Semitic pairs of the paper."""
    case = on_tables("pos", 0.91, model="bert-base-multilingual-cased")
    verdict = CLAIMS["C-fam-Semitic-mbert"].on(case)
    assert (verdict.verdict, verdict.numbers) == (
        HOLDS,
        "mean gain 0.910 over 2 pairs (stated: 0.91)",
    )


@pytest.mark.parametrize(
    ("targets", "others", "verdict"), [(5, 0, FAILS), (3, 2, HOLDS), (1, 2, UNSHOWN)]
)
def test_how_often_ec_is_best(targets: int, others: int, verdict: str) -> None:
    """5 of 5 is not 3 of 5; 1 of 3, of other targets, may be."""
    names = ("en", "de", "ar", "he", "zh")
    case = merged("pos", names[:targets]) + merged(
        "pos", names[targets : targets + others], MD=60.0
    )
    assert CLAIMS["C-EC-POS"].on(case).verdict == verdict


def test_gaps_of_the_ends_that_differ_in_size_are_not_level() -> None:
    gaps = {"top1": 72.7, "top2": 68.2, "top3": 53.5, "bottom1": 70, "bottom2": 70, "bottom3": 70}
    verdict = CLAIMS["W8"].on(glue(layers(**gaps), ("sst2",)))
    assert (verdict.verdict, verdict.numbers.endswith("1: +2.70, 2: -1.80, 3: -16.50")) == (
        UNSHOWN,
        True,
    )


def test_heads_kept_here_or_there_make_no_difference_only_if_it_is_small() -> None:
    assert CLAIMS["W4"].on(strings(0.3, -0.2, 0.1, -0.3, 0.2)).verdict == HOLDS
    assert CLAIMS["W4"].on(strings(3.0, -2.0)).verdict == UNSHOWN


def test_five_percentages_of_another_model_or_pair_are_a_sample() -> None:
    """Table 2 has one model and one language pair; five others are not all of its cases."""
    table = strings(0.3, -0.2, 0.1, -0.3, 0.2)
    for field, value in (("model", "transformer-mini"), ("target", "en-de")):
        other = Evidence(scores=tuple(replace(s, **{field: value}) for s in table.scores))
        assert "all 5 cases" not in CLAIMS["W4"].on(other).strength
    assert "all 5 cases" in CLAIMS["W4"].on(table).strength


def test_three_ways_to_merge_are_one_case_of_a_target() -> None:
    """MD, SD and EC share trainings: three targets are not nine cases, and may be luck."""
    verdict = CLAIMS["C-multi-all"].on(merged(targets=("en", "de", "zh")))
    assert (verdict.verdict, verdict.follows) == (UNSHOWN, LUCKY)
    assert "into 3 of 3 targets" in verdict.numbers
    assert verdict.strength.startswith("n = 3: as many would agree by chance")


def test_every_language_counts_where_the_paper_excepts_none() -> None:
    """XLM-R behind into zh and ja refutes nothing across languages, but does with the target."""
    ahead = lambda s: 55.0 if not {s.source, s.target} & {"zh", "ja"} else 45.0  # noqa: E731
    for setting, verdict in (("cross-lingual", HOLDS), ("multi-lingual", FAILS)):
        mbert = on_tables("pos", 1.0, model=MBERT, setting=setting)
        xlmr = on_tables("pos", 1.0, model=XLMR, setting=setting)
        scored = tuple(replace(s, unpruned=ahead(s)) for s in xlmr.searches)
        both = mbert + Evidence(searches=scored)
        assert CLAIMS[f"C-xlmr-POS-{setting}"].on(both).verdict == verdict


def test_each_block_is_best_somewhere_by_luck_in_four_of_nine_tries() -> None:
    assert CLAIMS["W5"].on(triples(0, 1, 2, 2, repeats=(0.0,))).verdict == UNSHOWN
    assert CLAIMS["W5"].on(triples(0, 1, 2, 2, repeats=(-2.0, 0.0, 2.0))).verdict == UNSHOWN
    assert CLAIMS["W5"].on(triples(0, 1, 2, 2)).verdict == HOLDS


def test_languages_have_to_lie_apart_before_training() -> None:
    for before, verdict in ((0.5, HOLDS), (0.2, FAILS), (-0.02, FAILS)):
        result = CLAIMS["M18"].on(embeddings(0.2, 0.3, 2.0, (before, before - 0.3)))
        assert result.verdict == verdict, result


def test_draws_that_scatter_show_no_number() -> None:
    def verdict_on(*values: float) -> str:
        kept = (fact("wmt14", "stratified 1", 30 - value, 87.5, "en-ru") for value in values)
        return CLAIMS["W3"].on(facts(fact("wmt14", "none", 30.0, target="en-ru"), *kept)).verdict

    assert verdict_on(1.6, 1.62, 1.64) == HOLDS
    assert verdict_on(0.62, 1.62, 2.62) == UNSHOWN
    assert verdict_on(4.6, 4.62, 4.64) == FAILS


def test_a_single_language_pair_shows_no_bound_for_all() -> None:
    evidence = bleu(s75=29.1)
    assert CLAIMS["W2"].on(evidence).verdict == HOLDS
    assert (
        CLAIMS["W2"].on(facts(*(f for f in evidence.scores if f.target == "en-de"))).verdict
        == UNSHOWN
    )
