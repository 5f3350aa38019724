"""Luck: what the best of many equally good trials would do, by hand and by throwing dice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from example_scores import CROSS, MBERT
from example_searches import OTHERS, arm, controls, merged, rankings, search

from deadhead.papers.claims import FAILS, HOLDS, LUCKY, OPEN, UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.strength import by_luck, lucky_share
from deadhead.results import Search

CLAIMS = all_claims()


def test_share_by_hand() -> None:
    assert lucky_share([12]) == pytest.approx(12 / 13)
    assert lucky_share([1, 3]) == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert (
        by_luck(3, [1, 1, 1]) == "luck alone: 1.5 of 3, as many or more with p = 0.12"
    )  # one of eight


def thrown(
    rng: random.Random, source: str, target: str, task: str = "pos", better: float = 0.0
) -> Search:
    """A search in which every trial scores as a die does; the lowest arm may have loaded dice."""
    full = rng.gauss(50, 1)
    arms = {}
    for name in ("lowest", "seeds", "random", "highest"):
        scores = tuple(rng.gauss(50 + (better if name == "lowest" else 0), 1) for _ in range(12))
        by_k = dict(enumerate(scores, 1))
        arms[name] = arm(max(scores) - full, 1 + scores.index(max(scores)), scores=by_k)
    return Search(
        model=MBERT,
        task=task,
        source=source,
        target=target,
        setting=CROSS,
        unpruned=full,
        arms=arms,
        rank="gradient",
        trials=(f"{source}-{target}",),
    )


def many(better: float, seed: int = 0) -> Evidence:
    rng = random.Random(seed)
    return Evidence(
        searches=tuple(
            thrown(rng, source, target, better=better)
            for source in ("en", "zh", "ar", "sw")
            for target in OTHERS
            if source != target
        )
    )


def test_dice_make_the_papers_counts_and_no_claim_on_luck() -> None:
    """Nine of ten pairs "gain" where pruning does nothing; only the controls tell."""
    verdicts = {
        name: CLAIMS[name].on(many(0.0))
        for name in (
            "C-count-POS",
            "C-rand-vs-low",
            "L-seeds",
            "L-random",
            "L-highest",
            "L-count-POS",
        )
    }
    assert verdicts["C-count-POS"].verdict == UNSHOWN
    assert {
        name: verdict.verdict for name, verdict in verdicts.items() if name.startswith("L-")
    } == dict.fromkeys(("L-seeds", "L-random", "L-highest", "L-count-POS"), UNSHOWN)
    assert (
        verdicts["C-rand-vs-low"].verdict == UNSHOWN
    )  # half are behind, but none by more than luck


def test_a_claim_that_luck_alone_would_meet_says_so() -> None:
    verdict = CLAIMS["C-count-POS"].on(many(0.0))
    assert (verdict.verdict, verdict.follows) == (UNSHOWN, LUCKY)
    assert "the best of as many unpruned seeds gains +1." in verdict.strength
    assert CLAIMS["C-count-POS"].on(many(2.0)).follows == ""  # every pair gains: more than luck


def means(low: float, seeds: float | None) -> Evidence:
    arms = {} if seeds is None else {"seeds": seeds}
    return Evidence(searches=tuple(search(low, target=target, **arms) for target in OTHERS))


def test_a_mean_gain_is_luck_only_where_unpruned_seeds_gain_as_much() -> None:
    name = "C-mean-POS-mbert-cross-lingual"
    verdicts = {seeds: CLAIMS[name].on(means(0.91, seeds)) for seeds in (0.95, 0.5, None)}
    assert {verdict.verdict for verdict in verdicts.values()} == {HOLDS}
    assert {seeds: verdict.follows for seeds, verdict in verdicts.items()} == {
        0.95: LUCKY,
        0.5: "",
        None: "",
    }
    assert CLAIMS[name].on(means(3.0, 3.5)).follows == ""  # what does not hold is not by luck


def test_a_mean_gain_that_is_hardly_ahead_of_unpruned_seeds_is_luck() -> None:
    """A lead of 0.1 with half a point up and down; without the spread it would be clear."""
    name = "C-mean-POS-mbert-cross-lingual"
    leads = [0.1 + 0.5 * (-1) ** i for i in range(len(OTHERS) // 2 * 2)]
    hardly = Evidence(
        searches=tuple(
            search(0.91, target=target, seeds=0.91 - lead)
            for target, lead in zip(OTHERS, leads, strict=False)
        )
    )
    assert (CLAIMS[name].on(hardly).verdict, CLAIMS[name].on(hardly).follows) == (HOLDS, LUCKY)
    assert CLAIMS[name].on(means(0.91, 0.81)).follows == ""


def test_ec_that_is_best_as_often_as_its_trials_are_more_is_luck() -> None:
    """Of two sources it has half of all trials: three wins of five are no wonder."""
    some = merged("ner", ("en", "de", "ar")) + merged("ner", ("he", "zh"), MD=60.0)
    verdict = CLAIMS["C-EC-NER"].on(some)
    assert (verdict.verdict, verdict.follows) == (HOLDS, LUCKY)
    assert (
        "2 times the trials of MD or SD; luck alone: 2.5 of 5, as many or more with p = 0.5"
        in verdict.strength
    )


def at_best(*ks: float, **more: Any) -> Evidence:
    results = zip(ks, means(1.0, None).searches, strict=False)
    return Evidence(
        searches=tuple(
            replace(search, arms={"lowest": arm(1.0, k, **more)}) for k, search in results
        )
    )


def test_the_number_of_heads_that_luck_takes_is_luck() -> None:
    wide, narrow = (
        CLAIMS["C-heads-POS"].on(at_best(*ks)) for ks in ((3, 6, 7, 11), (7.4, 7.5, 7.6, 7.5))
    )
    assert (wide.verdict, wide.follows) == (UNSHOWN, LUCKY)  # 6.75, and 6.5 is as near as 7.52
    assert (narrow.verdict, narrow.follows) == (HOLDS, "")  # 7.5 and nothing else
    assert "7.50 of 12" in narrow.numbers
    assert "6.5 by luck" in narrow.numbers
    few = CLAIMS["C-heads-POS"].on(
        at_best(6, 9, 6, 9, tried=(3, 6, 9, 12))
    )  # four trials, and still up to 12 heads
    assert (few.verdict, few.follows) == (UNSHOWN, LUCKY)
    assert "7.50 of 12" in few.numbers
    assert "7.5 by luck" in few.numbers


def test_the_lowest_that_vary_less_than_the_highest_do_not_vary() -> None:
    assert (
        CLAIMS["C-rank"].on(rankings(0, 1)).verdict == UNSHOWN
    )  # of mBERT; nothing is known of XLM-R
    assert CLAIMS["C-rank"].on(rankings(0, 0)).verdict == FAILS  # all the same, the lowest too
    assert CLAIMS["C-rank"].on(rankings(1, 0)).margin == pytest.approx(0.5 - 1)


def test_what_is_more_than_luck_is_found() -> None:
    for name in ("L-seeds", "L-random", "L-highest", "L-count-POS"):
        verdict = CLAIMS[name].on(many(2.0))
        assert verdict.verdict == HOLDS, verdict
    assert "pairs clear by themselves" in CLAIMS["L-seeds"].on(many(2.0)).strength
    assert len(CLAIMS["L-seeds"].on(many(2.0)).trials) == len(many(2.0).searches)


def test_one_training_scored_in_many_languages_is_one_experiment() -> None:
    searches = tuple(search(1.0, target=target, seeds=0.0, trials=("one",)) for target in OTHERS)
    verdict = CLAIMS["L-seeds"].on(Evidence(searches=searches))
    assert verdict.verdict == OPEN
    assert (
        "there are 1 (so far ahead in 12 of 12 pairs, by +1.00 points on average)"
        in verdict.numbers
    )


def test_a_language_scored_in_itself_is_no_transfer() -> None:
    """Table 5 has 32 pairs; English scored in English is not one of them."""
    pairs = controls("random", 0.2).searches
    home = tuple(
        search(-9.0, target="en", setting="mono-lingual", random=9.0, task=task)
        for task in ("pos", "ner")
    )
    verdict = CLAIMS["L-random"].on(Evidence(searches=(*pairs, *home)))
    assert (verdict.verdict, verdict.numbers) == (
        HOLDS,
        CLAIMS["L-random"].on(Evidence(searches=pairs)).numbers,
    )
    assert "in 8 of 8 pairs" in verdict.numbers


def test_arms_of_unequal_budget_are_not_compared() -> None:
    uneven = tuple(
        search(1.0, target=target, seeds=0.0, budget=4) for target in OTHERS
    )  # the control had 12 tries
    assert CLAIMS["L-seeds"].on(Evidence(searches=uneven)).verdict == OPEN
