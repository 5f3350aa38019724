"""Claims of Budhraja et al. 2021 (mbert-prunability) on GLUE: M1 to M8.

Those on XNLI are in `mbert_xnli.py`, those on what one epoch does in `mbert_measures.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from statistics import fmean

from deadhead.claims.cases import TENTHS, all_of_glue
from deadhead.claims.evidence import GLUE, Evidence, Mean, means
from deadhead.claims.from_papers import stated
from deadhead.claims.layer_sets import (
    BLOCKS,
    PLAIN,
    Place,
    Sets,
    behind,
    half_means,
    halves,
    lead,
    listed,
    sets_of_layers,
)
from deadhead.claims.losses import at, final, lost, near, noise
from deadhead.claims.rule import ABOUT, POINT, above, as_stated, by_repeats, every, worst
from deadhead.claims.scope import about, against
from deadhead.claims.strength import signs, spread_words
from deadhead.claims.subjects import BESIDE, EITHER, MBERT, ON_GLUE, ON_THE_FOUR, short
from deadhead.claims.verdict import Claim, Finding, judged, missing
from deadhead.results import Score
from deadhead.results.statistics import drop

from .claims_measures import CLAIMS as ON_MEASURES
from .claims_xnli import CLAIMS as IN_LANGUAGES

PAPER = "mbert-prunability"
LEVEL = ("qqp", "qnli")  # tasks on which mBERT is said to be level with BERT
THIRD = 100 / 3  # percent of the layers: four of twelve


def m1(evidence: Evidence) -> Finding:
    places = halves(final(evidence))
    by_word, used = half_means(places)
    if "middle" not in by_word or len(by_word) < 3:
        return missing("accuracy with the middle and with as many other layers gone, in three ways")
    next_worst = min((name for name in by_word if name != "middle"), key=lambda name: by_word[name])
    leads, draws = lead(places, next_worst, "middle")
    shown = above(leads, 0.0, _whole(places), draws)
    return judged(
        shown, f"mean left: {listed(by_word)}", spread_words(used, evidence.printed), behind(used)
    )


def _whole(places: Iterable[Place]) -> bool:
    return all_of_glue(task for task, _ in places)


def m2(evidence: Evidence) -> Finding:
    found = halves(final(evidence))
    both = {
        (at(*place), block, plain): (cells[plain], cells[block])
        for place, cells in found.items()
        for block in BLOCKS
        for plain in PLAIN
        if {block, plain} <= set(cells)
    }
    leads = {key: one.value - other.value for key, (one, other) in both.items()}
    if len(leads) < 4:
        return missing(
            "accuracy with the odd or even layers gone, and with as many in a row, in four comparisons"
        )
    better = [
        f"{task}: {block} beats {plain} by {-lead:.2f}"
        for (task, block, plain), lead in leads.items()
        if lead < 0
    ]
    used = [
        cell
        for cells in found.values()
        for word, cell in cells.items()
        if word in (*BLOCKS, *PLAIN)
    ]
    numbers = f"{sum(v > 0 for v in leads.values())} of {len(leads)} comparisons" + (
        f"; {', '.join(better)}" if better else ""
    )
    strength = f"{signs(leads.values())}; {spread_words(used, evidence.printed)}"
    whole = _whole(found) and len(leads) == len(found) * len(BLOCKS) * len(PLAIN)
    draws = [by_repeats([one.repeats, other.repeats]) for one, other in both.values()]
    shown = every(list(leads.values()), whole, ties=True, noise=draws)
    return judged(shown, numbers, strength, behind(used))


def m3(evidence: Evidence, other: Evidence) -> Finding:
    places = halves(final(evidence))
    by_word, used = half_means(places)
    if not set(PLAIN) <= set(by_word):
        return missing("accuracy with the even layers gone, and with as many odd ones")
    leads, draws = lead(places, "even", "odd")
    theirs = [cells for cells in halves(final(other)).values() if set(PLAIN) <= set(cells)]
    beside = (
        f"; {_who(other)}: {listed({word: fmean(c[word].value for c in theirs) for word in PLAIN})}"
        if theirs
        else ""
    )
    numbers = f"mean left: {listed({word: by_word[word] for word in PLAIN})}{beside}"
    return judged(
        above(leads, 0.0, _whole(places), draws),
        numbers,
        spread_words(used, evidence.printed),
        behind(used),
    )


def _who(other: Evidence) -> str:
    """The model compared with: BERT, or whatever stands in for it."""
    model = other.scores[0].model
    return BESIDE.name if short(model) in BESIDE.own else model


def about_as_stated(evidence: Evidence, share: float) -> Finding:
    """Whether the mean relative loss of a model at a share of heads is about the one stated."""
    facts = final(evidence)
    wanted = stated(PAPER, "mean_relative_drop_percent", task="glue", percent=f"{share:g}")
    losses = lost(facts, near(facts, share))
    if not losses:
        return missing(f"accuracy on GLUE, unpruned and with {share:g} % of the heads drawn out")
    values = [drop(points + cell.value, cell.value) for points, cell in losses.values()]
    used = [cell for _, cell in losses.values()]
    full = fmean(points + cell.value for points, cell in losses.values())
    draws = noise(losses)
    percent = None if draws is None else 100 * draws / full
    shown = as_stated(
        values, wanted, ABOUT * wanted, all_of_glue(task for task, *_ in losses), percent
    )
    numbers = f"stated {wanted:g} %; found {facts[0].model} {fmean(values):.2f} %"
    return judged(shown, numbers, spread_words(used, evidence.printed), behind(used))


def _gaps(evidence: Evidence, other: Evidence) -> dict[tuple[str, float], tuple[Mean, Mean]]:
    """By (task, share): the scores of BERT and of mBERT."""
    ours, theirs = (
        means(
            [f for f in final(one) if f.share is not None and _curve(f)], "task", "target", "share"
        )
        for one in (evidence, other)
    )
    return {
        (at(*place), share): (theirs[*place, share], ours[*place, share])
        for *place, share in ours
        if (*place, share) in theirs
    }


def _gap(cells: tuple[Mean, Mean]) -> float:
    return cells[0].value - cells[1].value


def _curve(fact: Score) -> bool:
    return fact.remove == "none" or fact.strategy == "random"


def m6(evidence: Evidence, other: Evidence) -> Finding:
    gaps = _gaps(evidence, other)
    moved = {
        key: _gap(cells) - _gap(gaps[key[0], 0.0])
        for key, cells in gaps.items()
        if key[1] and (key[0], 0.0) in gaps
    }
    if len({share for _, share in moved}) < 2:
        return missing(
            "accuracy of BERT and of mBERT on one task, unpruned and at two shares of heads drawn out"
        )
    (task, share), most = max(moved.items(), key=lambda item: abs(item[1]))
    numbers = f"the gap moves most on {task} at {share:g} %: by {most:+.2f} points"
    whole = {(task, round(share)) for task, share in moved} == {
        (task, share) for task in GLUE for share in TENTHS
    }
    used = [cell for cells in gaps.values() for cell in cells]
    draws = [by_repeats(cell.repeats for cell in (*gaps[key], *gaps[key[0], 0.0])) for key in moved]
    shown = every([POINT - abs(value) for value in moved.values()], whole, ties=True, noise=draws)
    return judged(shown, numbers, spread_words(used, evidence.printed), behind(used))


def m7(evidence: Evidence, other: Evidence) -> Finding:
    unpruned = {
        task: cells for (task, share), cells in _gaps(evidence, other).items() if share == 0
    }
    at0 = {task: _gap(cells) for task, cells in unpruned.items()}
    if not at0:
        return missing("accuracy of unpruned BERT and mBERT on one of the four tasks")
    used = [cell for cells in unpruned.values() for cell in cells]
    numbers = "BERT minus mBERT: " + ", ".join(f"{task} {gap:+.2f}" for task, gap in at0.items())
    leads = [POINT - abs(gap) if task in LEVEL else gap for task, gap in at0.items()]
    draws = [by_repeats(cell.repeats for cell in cells) for cells in unpruned.values()]
    shown = every(leads, all_of_glue(at0), ties=True, noise=draws)
    return judged(shown, numbers, spread_words(used, evidence.printed), behind(used))


def _lags(
    sets: Sets,
) -> tuple[dict[Place, dict[bool, list[float]]], dict[Place, list[float]], list[Mean]]:
    """By place: how far the middle is behind the ends, up to a third of the layers and beyond, and top minus bottom."""
    lags: dict[Place, dict[bool, list[float]]] = {}
    ends: dict[Place, list[float]] = {}
    used = []
    for (word, n), cells in sets.items():
        for place, middle in cells.items() if word == "middle" else ():
            top, bottom = (
                sets.get(("top", n), {}).get(place),
                sets.get(("bottom", n), {}).get(place),
            )
            share = middle.scores[0].share
            if top and bottom and share is not None:
                ends.setdefault(place, []).append(top.value - bottom.value)
                lag = (top.value + bottom.value) / 2 - middle.value
                lags.setdefault(place, {}).setdefault(share > THIRD + 0.1, []).append(lag)
                used += [top, bottom, middle]
    return lags, ends, used


def m8(evidence: Evidence) -> Finding:
    lags, ends, used = _lags(sets_of_layers(final(evidence)))
    both = {
        place: {deep: fmean(values) for deep, values in by.items()}
        for place, by in lags.items()
        if len(by) == 2
    }
    if not both:
        return missing(
            "accuracy with top, middle and bottom layers gone, at most a third of them and more"
        )
    few, many = (fmean(by[deep] for by in both.values()) for deep in (False, True))
    between = [fmean(ends[place]) for place in both]
    whole = _whole(both)
    parts = [
        above([by[True] for by in both.values()], 0.0, whole),
        above([by[True] - by[False] for by in both.values()], 0.0, whole),
        above([by[True] - abs(fmean(between)) for by in both.values()], 0.0, whole),
    ]
    numbers = f"middle behind the ends by {few:.2f} points up to a third of the layers, {many:.2f} beyond; top minus bottom {fmean(between):+.2f}"
    strength = f"top against bottom: {signs(v for some in ends.values() for v in some)}; {spread_words(used, evidence.printed)}"
    return judged(worst(parts), numbers, strength, behind(used))


CLAIMS = tuple(
    Claim(name, PAPER, statement, judge, unit)
    for name, unit, statement, judge in (
        ("M1", "points", "The middle is the worst half of mBERT's layers to cut, on average over tasks.", about(m1, MBERT, ON_GLUE)),
        ("M2", "points", "Cutting layers in a row always costs more than cutting every second one.", about(m2, MBERT, ON_GLUE)),
        ("M3", "points", "Cutting the even layers is better than cutting the odd ones on average: keeping the first layer helps.", against(m3, MBERT, ON_GLUE, BESIDE)),
        ("M4", "%", "Drawing out half of the heads costs mBERT, and BERT alike, about 2 % of mean GLUE accuracy.", about(partial(about_as_stated, share=50), EITHER, ON_GLUE)),
        ("M5", "%", "Drawing out 90 % of the heads costs mBERT, and BERT alike, about 7.5 % of mean GLUE accuracy.", about(partial(about_as_stated, share=90), EITHER, ON_GLUE)),
        ("M6", "points", "The gap of mBERT behind BERT is the same at every share of heads drawn out (within 1 point).", against(m6, MBERT, ON_GLUE, BESIDE)),
        ("M7", "points", "Unpruned, mBERT is level with BERT on qqp and qnli (within 1 point) and behind it on mnli and sst2.", against(m7, MBERT, ON_THE_FOUR, BESIDE)),
        ("M8", "points", "On GLUE neither end of mBERT matters more; the middle does, most clearly beyond a third of the layers.", about(m8, MBERT, ON_GLUE)),
    )
) + IN_LANGUAGES + ON_MEASURES  # fmt: skip
