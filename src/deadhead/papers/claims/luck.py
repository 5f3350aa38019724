"""Our own claims, which no paper makes: was it pruning, or the best of many tries?

The best of twelve trials beats one trial even where pruning does nothing. So the best of the
lowest-k search is compared with the best of the same number of trials that differ in one thing:
unpruned models with other seeds, random heads, the highest-ranked heads. And the number of pairs
that gain is compared with the number that would gain by luck: the best of 12 equal trials beats one
model 12 times of 13. Pairs scored by the same trained models count as one group.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from deadhead.results import Search
from deadhead.results.statistics import beyond_luck, compare_with_seeds

from .claim import BOTH, MBERT, ON_POS_AND_NER, Claim, Models, Scope, any_model
from .evidence import Evidence
from .rule import LEVEL, lucky_share, signs
from .searches import TASKS, chance, gaining, single
from .verdict import FAILS, HOLDS, UNSHOWN, Finding, Outcome, judged, missing

NAME = "luck"  # where other claims have the name of their paper
ARMS = {
    "seeds": "unpruned models with other seeds",
    "random": "random heads",
    "highest": "the highest-ranked heads",
}
FEWEST = 6  # groups; with fewer no order of signs is rarer than 5 in 100


def beats(evidence: Evidence, arm: str) -> Finding:
    """Whether the lowest-k search beats a control of the same size by more than chance."""
    both = [s for s in evidence.searches if {"lowest", arm} <= set(s.arms) and s.is_pair]
    searches = [s for s in both if s.arms["lowest"].budget == s.arms[arm].budget]
    # The training behind a pair: the trial of the unpruned model; printed pairs have none.
    groups = [s.trials[0] if s.trials else _training(s) for s in searches]
    leads = [s.gain() - s.gain(arm) for s in searches]
    ahead = f"{sum(lead > 0 for lead in leads)} of {len(searches)} pairs"
    if len(set(groups)) < FEWEST:
        mean = f"by {fmean(leads):+.2f} points on average" if leads else ""
        so_far = f" (so far ahead in {ahead}, {mean})" if leads else ""
        return missing(
            f"lowest-k searches with the control `{arm}` of {FEWEST} trainings or more; "
            f"there are {len(set(groups))}{so_far}"
        )
    excess = beyond_luck(leads, groups)
    numbers = (
        f"ahead of {ARMS[arm]} in {ahead}, by {excess.mean:+.2f} points "
        f"(95 %: {excess.low:+.2f} to {excess.high:+.2f})"
    )
    strength = (
        f"permutation p = {excess.p:.2g} over {excess.groups} groups of pairs that share "
        f"trainings; {signs(leads)}{_each_pair(searches, arm)}"
    )
    if excess.low > 0 and excess.p < LEVEL:
        outcome = Outcome(HOLDS, excess.low)
    else:
        outcome = Outcome(FAILS, excess.high) if excess.high < 0 else Outcome(UNSHOWN, excess.low)
    return judged(outcome, numbers, searches, strength)


def _training(search: Search) -> Hashable:
    target = "" if search.setting == "cross-lingual" else search.target
    return search.model, search.task, search.source, target


def _each_pair(searches: Sequence[Search], arm: str) -> str:
    """What each pair says by itself, where all its trials are known."""
    arms = [(s, s.arms["lowest"].scores, s.arms[arm].scores) for s in searches]
    whole = [(s, low, other) for s, low, other in arms if 0 < len(low) == len(other)]
    if not whole:
        return ""
    ps = sorted(
        (
            compare_with_seeds(s.unpruned, tuple(low.values()), tuple(other.values())).p,
            f"{s.task} {s.source}-{s.target}",
        )
        for s, low, other in whole
    )
    clear = sum(p < LEVEL for p, _ in ps)
    best = ", ".join(f"{pair} p = {p:.2g}" for p, pair in ps[:3])
    return f"; {clear} of {len(whole)} pairs clear by themselves (exact p; clearest: {best})"


def more_than_lucky(evidence: Evidence, task: str) -> Finding:
    """Whether more pairs gain than would if all trials were equally good."""
    from scipy.stats import binom

    searches = single(evidence, task)
    share = lucky_share([s.arms["lowest"].budget for s in searches]) if searches else 1.0
    border = int(binom.ppf(1 - LEVEL, len(searches), share)) + 1 if searches else 1
    if border > len(searches):
        return missing(
            f"lowest-k searches on {task} of more pairs: luck alone would help nearly all of the "
            f"{len(searches)} there are"
        )
    better = gaining(searches)
    numbers = f"{better} of {len(searches)} pairs gain ({border} would be more than luck)"
    strength = f"{chance(searches)}; pairs counted as independent; early stops have less luck"
    fewer = binom.cdf(better, len(searches), share) < LEVEL
    verdict = HOLDS if better >= border else FAILS if fewer else UNSHOWN
    return judged(Outcome(verdict, better - border), numbers, searches, strength)


# The paper has these controls for one model only, and counts pairs of both.
COUNTED = Scope(models=Models("", BOTH.own, any_model), searches=True, together=True, general=True)
CONTROLLED = replace(COUNTED, models=Models("", MBERT.own, any_model), tasks=ON_POS_AND_NER)
# fmt: off
CLAIMS = (
    *(
        Claim(f"L-{arm}", "points", partial(beats, arm=arm), CONTROLLED,
              f"The best of the lowest-k search beats the best of as many trials with {trials}.")
        for arm, trials in ARMS.items()
    ),
    *(
        Claim(f"L-count-{name}", "pairs", partial(more_than_lucky, task=task), COUNTED,
              f"On {name} cutting the lowest-ranked heads helps more pairs than the best of as "
              "many equally good trials would.")
        for name, task in TASKS.items()
    ),
)
# fmt: on
