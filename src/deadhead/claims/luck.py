"""Claims no paper makes: was it pruning, or the best of many tries?

The best of twelve trials beats one trial even where pruning does nothing. So the best of the lowest-k
search is held against the best of as many trials that differ from it in one thing: unpruned models with
other seeds, random heads, the highest-ranked heads. And the number of pairs that gain is held against that which
the best of as many equally good trials would help: the best of 12 beats one model 12 times of 13. Pairs scored by the same trained models are one
experiment, not several, and are counted as one group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from statistics import fmean

from deadhead.results import Search
from deadhead.results.statistics import beyond_luck, compare_with_seeds

from .evidence import Evidence
from .scope import about_searches
from .searches import BOTH, OF, TASKS, chance, gain, paired
from .strength import LEVEL, lucky_share, signs
from .subjects import ON_POS_AND_NER, Models, anything
from .verdict import FAILS, HOLDS, UNSHOWN, Claim, Finding, Shown, judged, missing

PAPER = "luck"
ARMS = {
    "seeds": "unpruned models with other seeds",
    "random": "random heads",
    "highest": "the highest-ranked heads",
}
ANY = Models("", OF["mbert"].own, (anything,))  # the paper has controls of one model
ANY_COUNTED = Models("", BOTH.own, (anything,))
FEWEST = 6  # groups; with fewer no order of signs is rarer than 5 in 100


def beats(evidence: Evidence, arm: str) -> Finding:
    """Whether the lowest-k search beats a control with as many trials, by more than chance would give."""
    found = [
        s for s in evidence.searches if {"lowest", arm} <= set(s.arms) and s.source != s.target
    ]
    found = [s for s in found if s.arms["lowest"].budget == s.arms[arm].budget]
    groups = [_group(s) for s in found]
    leads = [s.arms["lowest"].gain - s.arms[arm].gain for s in found]
    ahead = sum(lead > 0 for lead in leads)
    if len(set(groups)) < FEWEST:
        so_far = (
            f" (so far ahead in {ahead} of {len(found)} pairs, by {fmean(leads):+.2f} points on average)"
            if found
            else ""
        )
        what = f"lowest-k searches with the control `{arm}` of {FEWEST} trainings or more; there are {len(set(groups))}{so_far}"
        return missing(what)
    excess = beyond_luck(leads, groups)
    numbers = f"ahead of {ARMS[arm]} in {ahead} of {len(found)} pairs, by {excess.mean:+.2f} points (95 %: {excess.low:+.2f} to {excess.high:+.2f})"
    strength = f"permutation p = {excess.p:.2g} over {excess.groups} groups of pairs that share trainings; {signs(leads)}{_alone(found, arm)}"
    if excess.low > 0 and excess.p < LEVEL:
        return judged(Shown(HOLDS, excess.low), numbers, strength, found)
    return judged(
        Shown(FAILS, excess.high) if excess.high < 0 else Shown(UNSHOWN, excess.low),
        numbers,
        strength,
        found,
    )


def _group(search: Search) -> Hashable:
    """What tells the trainings behind a pair: the trial of the unpruned model, or for printed numbers what would share one."""
    if search.trials:
        return search.trials[0]
    return (
        search.model,
        search.task,
        search.source,
        "" if search.setting == "cross-lingual" else search.target,
    )


def _alone(found: Sequence[Search], arm: str) -> str:
    """What each pair says by itself, where all its trials are known."""
    whole = [s for s in found if 0 < len(s.arms["lowest"].scores) == len(s.arms[arm].scores)]
    if not whole:
        return ""
    ps = sorted(
        (
            compare_with_seeds(
                s.unpruned, *(tuple(s.arms[name].scores.values()) for name in ("lowest", arm))
            ).p,
            f"{s.task} {s.source}-{s.target}",
        )
        for s in whole
    )
    clear = sum(p < LEVEL for p, _ in ps)
    best = ", ".join(f"{pair} p = {p:.2g}" for p, pair in ps[:3])
    return f"; {clear} of {len(whole)} pairs clear by themselves (exact p; clearest: {best})"


def counted(evidence: Evidence, task: str) -> Finding:
    """Whether more pairs gain than would if every trial were as good as every other."""
    from scipy.stats import binom

    found = paired(evidence, task)
    budgets = [s.arms["lowest"].budget for s in found]
    border = int(binom.ppf(1 - LEVEL, len(found), lucky_share(budgets))) + 1 if found else 1
    if border > len(found):
        return missing(
            f"lowest-k searches on {task} of so many pairs that luck alone would not help nearly all of them (there are {len(found)})"
        )
    better = sum(gain(s) > 0 for s in found)
    numbers = f"{better} of {len(found)} pairs gain ({border} would be more than luck)"
    strength = (
        f"{chance(found)}; pairs taken as independent; a search that stops early has less luck"
    )
    fewer = binom.cdf(better, len(found), lucky_share(budgets)) < LEVEL
    return judged(
        Shown(HOLDS if better >= border else FAILS if fewer else UNSHOWN, better - border),
        numbers,
        strength,
        found,
    )


def _claims() -> Iterator[Claim]:
    for arm, what in ARMS.items():
        text = f"The best of the lowest-k search beats the best of as many trials with {what}."
        yield Claim(
            f"L-{arm}",
            PAPER,
            text,
            about_searches(
                partial(beats, arm=arm), ANY, ON_POS_AND_NER, together=True, general=True
            ),
        )
    for name, task in TASKS.items():
        text = f"On {name} cutting the lowest-ranked heads helps more pairs than the best of as many equally good trials would."
        yield Claim(
            f"L-count-{name}",
            PAPER,
            text,
            about_searches(partial(counted, task=task), ANY_COUNTED, together=True, general=True),
            "pairs",
        )


CLAIMS = tuple(_claims())
