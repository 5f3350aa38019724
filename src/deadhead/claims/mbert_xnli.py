"""Claims of Budhraja et al. 2021 on XNLI, trained on English and scored in many languages: M9 to M15."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from ..analyses import Order, drop, group_means, grouped, interpolate, ordered
from ..errors import DataError
from .about import about, against
from .evidence import Evidence, Fact, Mean, means
from .from_papers import stated
from .kinds import BESIDE, MBERT, ON_GLUE, ON_XNLI
from .layer_sets import BLOCKS, behind, half_means, listed
from .losses import at, drawn, final
from .strength import majority, signs, spread
from .verdict import Claim, Finding, judged, missing

PAPER = "mbert-prunability"
ABOUT = 0.25  # "about" a number is within a quarter of it
CLASSES = ("SVO", "SOV", "VSO", "Agglutinative")
LEVELS = ("high", "medium", "low")


def drops(facts: Iterable[Fact], *axes: str) -> dict[tuple[Any, ...], tuple[float, Mean]]:
    """By target and some axes: the relative loss, where the unpruned score of the language is known."""
    facts = list(facts)
    full = means([f for f in facts if f.remove == "none"], "target")
    cells = means([f for f in facts if f.remove != "none"], "target", *axes)
    return {key: (drop(full[key[0]].value, cell.value), cell) for key, cell in cells.items() if key[0] in full and full[key[0]].value}


def m9(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = drops([f for f in facts if f.remove == "none"] + drawn(facts), "share")
    curve = {0.0: 0.0}
    for share in sorted({float(key[1]) for key in found}):
        curve[share] = fmean(value for (_, at), (value, _) in found.items() if float(at) == share)
    if not all(_around(curve, point) for point in (25, 50, 90)):
        return missing("XNLI scores of an unpruned mBERT and at random shares of heads around 25 %, 50 % and 90 %")
    at = {point: interpolate(curve, point) for point in (25, 50, 90)}
    low, high = (stated(PAPER, f"mean_relative_drop_percent_{end}") for end in ("low", "high"))
    margins = [
        ABOUT - abs(at[p] - want) / want
        for p, want in ((p, stated(PAPER, "mean_relative_drop_percent", task="xnli", percent=str(p))) for p in (25, 50))
    ]
    margins.append(min(at[90] - low, high - at[90]) / low)
    used = [cell for _, cell in found.values()]
    numbers = "mean relative loss " + ", ".join(f"{point} %: {value:.1f} %" for point, value in at.items())
    return judged(min(margins) >= 0, min(margins), numbers, spread(used, evidence.printed), behind(used))


def _around(curve: dict[float, float], point: float) -> bool:
    """Whether the curve has points on both sides, at most 30 % apart."""
    below, above = max((s for s in curve if s <= point), default=None), min((s for s in curve if s >= point), default=None)
    return below is not None and above is not None and above - below <= 30


def _per_language(found: dict[tuple[Any, ...], tuple[float, Mean]]) -> dict[str, float]:
    return {target: fmean(value for (at, *_), (value, _) in found.items() if at == target) for target in dict.fromkeys(k[0] for k in found)}


def _order(values: dict[str, float], by: str, names: Sequence[str]) -> Order | None:
    """Whether the means of these classes of languages rise in this order; None where a class has no language here."""
    try:
        return ordered(grouped(values, by), names)
    except DataError:
        return None


def _classed(values: dict[str, float]) -> str:
    """Of how many languages the paper tells the class; the others are in no mean."""
    known = sum(map(len, grouped(values, "word_order").values()))
    return f"{known} languages" if known == len(values) else f"{known} of {len(values)} languages, those the paper puts in a class"


def m10(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = drops([f for f in facts if f.remove == "none" or f.strategy == "random"], "share")
    each = _per_language(found)
    orders, levels = group_means(each, "word_order"), group_means(each, "resource")
    if not set(CLASSES) <= set(orders) or not set(LEVELS) <= set(levels):
        return missing("XNLI scores at random shares of heads, in a language of every word-order class and resource level")
    margin = min(
        min(orders[name] for name in CLASSES[1:]) - orders["SVO"],
        orders["Agglutinative"] - max(orders[name] for name in CLASSES[:-1]),
        min(levels["medium"], levels["low"]) - levels["high"],
    )
    used = [cell for _, cell in found.values()]
    numbers = f"mean relative loss: {listed(orders)}; {listed(levels)}"
    return judged(margin > 0, margin, numbers, f"{_classed(each)}; {spread(used, evidence.printed)}", behind(used))


def bottom_against_top(evidence: Evidence) -> tuple[dict[str, float], dict[str, float], list[Mean]]:
    """For each language: mean over depths of (loss with the bottom gone - loss with the top gone), the loss of the top alone."""
    found = drops([f for f in final(evidence) if f.remove == "none" or f.shape], "shape")
    d: dict[str, list[float]] = {}
    top_only: dict[str, list[float]] = {}
    used = []
    for (target, shape), (value, cell) in found.items():
        other = found.get((target, ("bottom", shape[1]))) if shape[0] == "top" else None
        if other is not None:
            d.setdefault(target, []).append(other[0] - value)
            top_only.setdefault(target, []).append(value)
            used += [cell, other[1]]
    return {name: fmean(v) for name, v in d.items()}, {name: fmean(v) for name, v in top_only.items()}, used


def m11(evidence: Evidence) -> Finding:
    d, _, used = bottom_against_top(evidence)
    if len(d) < 2:
        return missing("XNLI scores in two languages, unpruned, with the top and with the bottom layers gone")
    worse = sum(value > 0 for value in d.values())
    least = min(d, key=lambda name: d[name])
    numbers = f"the bottom matters more in {worse} of {len(d)} languages; least in {least} ({d[least]:+.2f} %)"
    return judged(d[least] > 0, d[least], numbers, f"{signs(d.values())}; {spread(used, evidence.printed)}", behind(used))


def m12(evidence: Evidence) -> Finding:
    d, _, used = bottom_against_top(evidence)
    orders, levels = _order(d, "word_order", CLASSES), _order(d, "resource", LEVELS)
    if orders is None or levels is None:
        return missing("XNLI with top and bottom layers gone, in a language of every word-order class and resource level")
    margin = min(orders.margin, levels.margin)
    strength = f"permutation p = {orders.p:.2g} and {levels.p:.2g} over {_classed(d)}; {spread(used, evidence.printed)}"
    return judged(margin > 0, margin, f"bottom minus top: {listed(orders.means)}; {listed(levels.means)}", strength, behind(used))


def m13(evidence: Evidence) -> Finding:
    _, top, used = bottom_against_top(evidence)
    order = _order(top, "word_order", CLASSES[::-1])
    if order is None:
        return missing("XNLI with top and bottom layers gone, in a language of every word-order class")
    strength = f"permutation p = {order.p:.2g} over {_classed(top)}; {spread(used, evidence.printed)}"
    return judged(order.holds, order.margin, f"loss with the top gone: {listed(order.means)}", strength, behind(used))


def _middle_lag(facts: Iterable[Fact]) -> tuple[dict[tuple[str, str], float], list[Mean]]:
    """By task and language: how much more, in percent, is lost with the middle gone than with the ends gone, on average over depths."""
    facts = list(facts)
    full = means([f for f in facts if f.remove == "none"], "task", "target")
    cells = means([f for f in facts if f.shape], "task", "target", "shape")
    lags: dict[tuple[str, str], list[float]] = {}
    used = []
    for (task, target, (word, n)), middle in cells.items():
        place = task, target
        top, bottom = cells.get((*place, ("top", n))), cells.get((*place, ("bottom", n)))
        if word == "middle" and top and bottom and place in full:
            lags.setdefault(place, []).append(100 * ((top.value + bottom.value) / 2 - middle.value) / full[place].value)
            used += [top, bottom, middle]
    return {place: fmean(values) for place, values in lags.items()}, used


def m14(evidence: Evidence, other: Evidence) -> Finding:
    ours, used = _middle_lag(final(evidence))
    theirs, beside = _middle_lag(final(other))
    if len(ours) < 2 or not theirs:
        return missing("XNLI of mBERT and GLUE of BERT, each unpruned and with top, middle and bottom layers gone")
    bert = fmean(theirs.values())
    less = sum(value < bert for value in ours.values())
    told = f"{fmean(ours.values()):.2f} %, against {bert:.2f} % on {' and '.join(at(*place) for place in theirs)}"
    numbers = f"middle behind the ends: {told}; less in {less} of {len(ours)} languages"
    strength = f"{signs(bert - value for value in ours.values())}; {spread([*used, *beside], evidence.printed)}"
    return judged(less >= majority(len(ours)), less - majority(len(ours)), numbers, strength, behind([*used, *beside]))


def m15(evidence: Evidence) -> Finding:
    by_word, used = half_means(evidence, fewest=2)
    if not {"even", "odd"} <= set(by_word) or not set(BLOCKS) & set(by_word):
        return missing("XNLI in two languages with the even, the odd and as many layers in a row gone")
    lead = by_word["even"] - max(value for name, value in by_word.items() if name != "even")
    return judged(lead > 0, lead, f"mean left: {listed(by_word)}", spread(used, evidence.printed), behind(used))


CLAIMS = tuple(
    Claim(name, PAPER, statement, judge, unit)
    for name, unit, statement, judge in (
        ("M9", "of the number", "On XNLI about 2.5 % is lost at 25 % of the heads drawn out, 5 % at 50 %, 10 to 15 % at 90 %.", about(m9, MBERT, ON_XNLI)),
        ("M10", "%", "SVO and high-resource languages lose least on XNLI, agglutinative ones most.", about(m10, MBERT, ON_XNLI)),
        ("M11", "%", "In every language of XNLI cutting bottom layers costs more than cutting top layers.", about(m11, MBERT, ON_XNLI)),
        ("M12", "%", "How much more the bottom matters rises from SVO over SOV and VSO to agglutinative, and from high to low resource.", about(m12, MBERT, ON_XNLI)),
        ("M13", "%", "Without top layers SVO languages lose most, then SOV, then VSO, agglutinative ones least.", about(m13, MBERT, ON_XNLI)),
        ("M14", "languages", "The middle layers matter less for XNLI in mBERT than for GLUE in BERT, in most languages.", against(m14, MBERT, ON_XNLI, BESIDE, ON_GLUE)),
        ("M15", "points", "On XNLI cutting the even layers beats cutting the odd ones or as many in a row, on average.", about(m15, MBERT, ON_XNLI)),
    )
)  # fmt: skip
