"""Luck: what the best of many equally good trials would do, by hand and by throwing dice."""

import random
from dataclasses import replace
from functools import cache

import pytest
from example_searches import OTHERS, arm, controls, merged, rankings, search

from deadhead.papers.claims import FAILS, HOLDS, LUCKY, OPEN, UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.rule import by_luck, lucky_share

CLAIMS = all_claims()
GAIN = "C-mean-POS-mbert-cross-lingual"
OURS = ("L-seeds", "L-random", "L-highest", "L-count-POS")


def test_share_by_hand():
    assert lucky_share([12]) == pytest.approx(12 / 13)
    assert lucky_share([1, 3]) == pytest.approx((1 / 2 + 3 / 4) / 2)
    one_of_eight = "luck alone: 1.5 of 3, as many or more with p = 0.12"
    assert by_luck(3, [1, 1, 1]) == one_of_eight


@cache
def dice(better):
    """Searches in which every trial scores as a die does; the lowest arm may have loaded dice."""
    rng = random.Random(0)
    pairs = [(s, t) for s in ("en", "zh", "ar", "sw") for t in OTHERS if s != t]
    searches = []
    for source, target in pairs:
        full, arms = rng.gauss(50, 1), {}
        for name in ("lowest", "seeds", "random", "highest"):
            lead = better if name == "lowest" else 0
            scores = {k: rng.gauss(50 + lead, 1) for k in range(1, 13)}
            best = max(scores, key=scores.__getitem__)
            arms[name] = arm(scores[best] - full, best, scores=scores)
        one = search(0.0, source, target, unpruned=full, rank="gradient")
        searches.append(replace(one, arms=arms))
    return Evidence(searches=tuple(searches))


def test_dice_make_the_papers_counts_and_no_claim_on_luck():
    """Nine of ten pairs "gain" where pruning does nothing; only the controls reveal it."""
    for name in ("C-count-POS", "C-rand-vs-low", *OURS):
        assert CLAIMS[name].on(dice(0.0)).verdict == UNSHOWN, name
    counted = CLAIMS["C-count-POS"].on(dice(0.0))
    assert counted.follows == LUCKY
    assert "the best of as many unpruned seeds gains +1." in counted.strength


def test_what_is_more_than_luck_is_found():
    for name in OURS:
        assert CLAIMS[name].on(dice(2.0)).verdict == HOLDS, name
    seeds = CLAIMS["L-seeds"].on(dice(2.0))
    assert "pairs clear by themselves" in seeds.strength
    assert len(seeds.trials) == len(dice(2.0).searches)
    assert CLAIMS["C-count-POS"].on(dice(2.0)).follows == ""  # every pair gains


def means(low, *seeds):
    """Searches that gain `low`, and whose unpruned seeds gain these numbers in turn."""
    arms = [{"seeds": seeds[i % len(seeds)]} if seeds else {} for i in range(len(OTHERS))]
    pairs = zip(OTHERS, arms, strict=True)
    return Evidence(searches=tuple(search(low, target=t, **more) for t, more in pairs))


@pytest.mark.parametrize(
    ("low", "seeds", "verdict", "follows"),
    [
        (0.91, [0.95], HOLDS, LUCKY),
        (0.91, [0.5], HOLDS, ""),
        (0.91, [], HOLDS, ""),
        (0.91, [0.31, 1.31], HOLDS, LUCKY),  # a lead of 0.1, half a point up and down
        (0.91, [0.81], HOLDS, ""),  # the same lead without that spread
        (3.0, [3.5], FAILS, ""),  # what does not hold is not by luck
    ],
)
def test_a_mean_gain_is_luck_where_unpruned_seeds_gain_as_much(low, seeds, verdict, follows):
    result = CLAIMS[GAIN].on(means(low, *seeds))
    assert (result.verdict, result.follows) == (verdict, follows)


def test_ec_that_is_best_as_often_as_its_trials_are_more_is_luck():
    """Of two sources it has half of all trials: three wins of five are no wonder."""
    some = merged("ner", ("en", "de", "ar")) + merged("ner", ("he", "zh"), MD=60.0)
    verdict = CLAIMS["C-EC-NER"].on(some)
    assert (verdict.verdict, verdict.follows) == (HOLDS, LUCKY)
    luck = "luck alone: 2.5 of 5, as many or more with p = 0.5"
    assert f"2 times the trials of MD or SD; {luck}" in verdict.strength


@pytest.mark.parametrize(
    ("ks", "arms", "verdict", "follows", "by_chance"),
    [
        ((3, 6, 7, 11), {}, UNSHOWN, LUCKY, "6.75 of 12"),  # 6.5 is as near as 7.52
        ((7.4, 7.5, 7.6, 7.5), {}, HOLDS, "", "6.5 by luck"),
        ((6, 9, 6, 9), {"tried": (3, 6, 9, 12)}, UNSHOWN, LUCKY, "7.5 by luck"),
    ],
)
def test_the_number_of_heads_that_luck_takes_is_luck(ks, arms, verdict, follows, by_chance):
    pairs = zip(ks, means(1.0).searches, strict=False)
    searches = tuple(replace(one, arms={"lowest": arm(1.0, k, **arms)}) for k, one in pairs)
    result = CLAIMS["C-heads-POS"].on(Evidence(searches=searches))
    assert (result.verdict, result.follows) == (verdict, follows)
    assert by_chance in result.numbers


def test_the_lowest_that_vary_less_than_the_highest_do_not_vary():
    ranked = CLAIMS["C-rank"].on
    assert ranked(rankings(0, 1)).verdict == UNSHOWN  # mBERT alone; XLM-R has no evidence
    assert ranked(rankings(0, 0)).verdict == FAILS  # all the same, the lowest too
    assert ranked(rankings(1, 0)).margin == pytest.approx(0.5 - 1)


def test_one_training_scored_in_many_languages_is_one_experiment():
    searches = tuple(search(1.0, target=target, seeds=0.0, trials=("one",)) for target in OTHERS)
    verdict = CLAIMS["L-seeds"].on(Evidence(searches=searches))
    so_far = "so far ahead in 12 of 12 pairs, by +1.00 points on average"
    assert (verdict.verdict, f"there are 1 ({so_far})" in verdict.numbers) == (OPEN, True)


def test_a_language_scored_in_itself_is_no_transfer():
    """Table 5 has 32 pairs; English scored in English is not one of them."""
    pairs, in_itself = controls("random", 0.2), {"target": "en", "setting": "mono-lingual"}
    home = tuple(search(-9.0, random=9.0, task=task, **in_itself) for task in ("pos", "ner"))
    verdict = CLAIMS["L-random"].on(Evidence(searches=(*pairs.searches, *home)))
    assert verdict.verdict == HOLDS
    assert verdict.numbers == CLAIMS["L-random"].on(pairs).numbers


def test_arms_of_unequal_budget_are_not_compared():
    uneven = tuple(search(1.0, target=target, seeds=0.0, budget=4) for target in OTHERS)
    assert CLAIMS["L-seeds"].on(Evidence(searches=uneven)).verdict == OPEN
