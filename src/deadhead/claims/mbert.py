"""Claims of Budhraja et al. 2021 (mbert-prunability) on GLUE: M1 to M8.

Those on XNLI are in `mbert_xnli.py`, those on what one epoch does in `mbert_measures.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from ..analyses import drop
from .evidence import GLUE, Evidence, Fact, Mean, means, multilingual
from .from_papers import stated
from .layer_sets import BLOCKS, PLAIN, behind, half_means, halves, listed, sets_of_layers
from .losses import final, lost, near
from .mbert_measures import CLAIMS as ON_MEASURES
from .mbert_xnli import ABOUT
from .mbert_xnli import CLAIMS as ON_XNLI
from .per_model import per_model
from .strength import signs, spread
from .verdict import Claim, Finding, judged, missing

PAPER = "mbert-prunability"
POINT = 1.0  # two scores are comparable, and a gap constant, within this many points
THIRD = 100 / 3  # percent of the layers: four of twelve


def m1(evidence: Evidence) -> Finding:
    return _worst_half(evidence, GLUE, "middle", "accuracy on two tasks")


def _worst_half(evidence: Evidence, tasks: Iterable[str], word: str, what: str) -> Finding:
    by_word, used = half_means(evidence, tasks)
    if word not in by_word or len(by_word) < 3:
        return missing(f"{what} with the middle and with as many other layers gone, in three ways")
    margin = min(value for name, value in by_word.items() if name != word) - by_word[word]
    return judged(margin > 0, margin, f"mean left: {listed(by_word)}", spread(used, evidence.printed), behind(used))


def m2(evidence: Evidence) -> Finding:
    found = halves(final(evidence, GLUE, multilingual))
    leads = {
        (place[0], block, plain): cells[plain].value - cells[block].value
        for place, cells in found.items()
        for block in BLOCKS
        for plain in PLAIN
        if {block, plain} <= set(cells)
    }
    if len(leads) < 4:
        return missing("accuracy with the odd or even layers gone, and with as many in a row, in four comparisons")
    better = [f"{task}: {block} beats {plain} by {-lead:.2f}" for (task, block, plain), lead in leads.items() if lead < 0]
    used = [cell for cells in found.values() for word, cell in cells.items() if word in (*BLOCKS, *PLAIN)]
    numbers = f"{sum(v > 0 for v in leads.values())} of {len(leads)} comparisons" + (f"; {', '.join(better)}" if better else "")
    strength = f"{signs(leads.values())}; {spread(used, evidence.printed)}"
    return judged(min(leads.values()) >= 0, min(leads.values()), numbers, strength, behind(used))


def m3(evidence: Evidence) -> Finding:
    by_word, used = half_means(evidence, GLUE)
    if not set(PLAIN) <= set(by_word):
        return missing("accuracy on two tasks with the even layers gone, and with as many odd ones")
    lead = by_word["even"] - by_word["odd"]
    other = [cells for cells in halves(final(evidence, GLUE, lambda model: not multilingual(model))).values() if set(PLAIN) <= set(cells)]
    beside = f"; BERT: {listed({word: fmean(c[word].value for c in other) for word in PLAIN})}" if other else ""
    numbers = f"mean left: {listed({word: by_word[word] for word in PLAIN})}{beside}"
    return judged(lead > 0, lead, numbers, spread(used, evidence.printed), behind(used))


def about_as_stated(evidence: Evidence, share: float) -> Finding:
    """Whether the mean relative loss of every model at a share of heads is about the one stated."""
    facts = [f for f in evidence.facts if f.task in GLUE and f.epoch is None]
    wanted, found, used = stated(PAPER, "mean_relative_drop_percent", task="glue", percent=f"{share:g}"), {}, []
    for model in dict.fromkeys(f.model for f in facts):
        mine = [f for f in facts if f.model == model]
        losses = lost(mine, near(mine, share))
        if len(losses) > 1:
            found[model] = fmean(drop(points + cell.value, cell.value) for points, cell in losses.values())
            used += [cell for _, cell in losses.values()]
    if not found:
        return missing(f"accuracy on two tasks of GLUE, unpruned and with {share:g} % of the heads drawn out")
    margin = ABOUT - max(abs(value - wanted) / max(value, wanted) for value in found.values())
    told = ", ".join(f"{model} {value:.2f} %" for model, value in found.items())
    return judged(margin >= 0, margin, f"stated {wanted:g} %; found {told}", spread(used, evidence.printed), behind(used))


def _gaps(evidence: Evidence) -> tuple[dict[tuple[str, float], float], list[Mean]]:
    """By (task, share): BERT minus mBERT."""
    cells = means(
        [f for f in evidence.facts if f.task in GLUE and f.epoch is None and f.share is not None and _curve(f)], "task", "share", "model"
    )
    gaps, used = {}, []
    for task, share in dict.fromkeys(key[:2] for key in cells):
        many = [cell for (*at, model), cell in cells.items() if tuple(at) == (task, share) and multilingual(model)]
        one = [cell for (*at, model), cell in cells.items() if tuple(at) == (task, share) and not multilingual(model)]
        if len(one) == len(many) == 1:
            gaps[task, share] = one[0].value - many[0].value
            used += [*one, *many]
    return gaps, used


def _curve(fact: Fact) -> bool:
    return fact.remove == "none" or fact.strategy == "random"


def m6(evidence: Evidence) -> Finding:
    gaps, used = _gaps(evidence)
    moved = {key: gap - gaps[key[0], 0.0] for key, gap in gaps.items() if key[1] and (key[0], 0.0) in gaps}
    if len({share for _, share in moved}) < 2:
        return missing("accuracy of BERT and of mBERT on one task, unpruned and at two shares of heads drawn out")
    (task, share), worst = max(moved.items(), key=lambda item: abs(item[1]))
    numbers = f"the gap moves most on {task} at {share:g} %: by {worst:+.2f} points"
    return judged(abs(worst) <= POINT, POINT - abs(worst), numbers, spread(used, evidence.printed), behind(used))


def m7(evidence: Evidence) -> Finding:
    gaps, used = _gaps(evidence)
    at0 = {task: gap for (task, share), gap in gaps.items() if share == 0}
    if not set(GLUE) <= set(at0):
        return missing("accuracy of unpruned BERT and mBERT on all four tasks")
    margin = min(*(POINT - abs(at0[task]) for task in ("qqp", "qnli")), *(at0[task] for task in ("mnli", "sst2")))
    numbers = "BERT minus mBERT: " + ", ".join(f"{task} {gap:+.2f}" for task, gap in at0.items())
    return judged(margin >= 0, margin, numbers, spread(used, evidence.printed), behind(used))


def m8(evidence: Evidence) -> Finding:
    sets = sets_of_layers(final(evidence, GLUE, multilingual))
    lags: dict[bool, list[float]] = {True: [], False: []}
    ends, used = [], []
    for (word, n), cells in sets.items():
        for place, middle in cells.items() if word == "middle" else ():
            top, bottom = sets.get(("top", n), {}).get(place), sets.get(("bottom", n), {}).get(place)
            share = middle.facts[0].share
            if top and bottom and share is not None:
                ends.append(top.value - bottom.value)
                lags[share > THIRD + 0.1].append((top.value + bottom.value) / 2 - middle.value)
                used += [top, bottom, middle]
    if not lags[True] or not lags[False]:
        return missing("accuracy with top, middle and bottom layers gone, at most a third of them and more")
    few, many, between = fmean(lags[False]), fmean(lags[True]), fmean(ends)
    margin = min(many, many - few, many - abs(between))
    numbers = f"middle behind the ends by {few:.2f} points up to a third of the layers, {many:.2f} beyond; top minus bottom {between:+.2f}"
    return judged(margin > 0, margin, numbers, f"top against bottom: {signs(ends)}; {spread(used, evidence.printed)}", behind(used))


COMPARE = ("M4", "M5", "M6", "M7")  # claims about two models
CLAIMS = tuple(
    Claim(name, PAPER, statement, judge if name in COMPARE else per_model(judge, multilingual), unit)
    for name, unit, statement, judge in (
        ("M1", "points", "The middle is the worst half of mBERT's layers to cut, on average over tasks.", m1),
        ("M2", "points", "Cutting layers in a row always costs more than cutting every second one.", m2),
        ("M3", "points", "Cutting the even layers is better than cutting the odd ones on average: keeping the first layer helps.", m3),
        ("M4", "of the number", "Drawing out half of the heads costs mBERT, and BERT alike, about 2 % of mean GLUE accuracy.", lambda e: about_as_stated(e, 50)),
        ("M5", "of the number", "Drawing out 90 % of the heads costs mBERT, and BERT alike, about 7.5 % of mean GLUE accuracy.", lambda e: about_as_stated(e, 90)),
        ("M6", "points", "The gap of mBERT behind BERT is the same at every share of heads drawn out (within 1 point).", m6),
        ("M7", "points", "Unpruned, mBERT is level with BERT on qqp and qnli (within 1 point) and behind it on mnli and sst2.", m7),
        ("M8", "points", "On GLUE neither end of mBERT matters more; the middle does, most clearly beyond a third of the layers.", m8),
    )
) + ON_XNLI + ON_MEASURES  # fmt: skip
