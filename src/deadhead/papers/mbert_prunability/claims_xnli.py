"""Claims of Budhraja et al. 2021 on XNLI, trained on English and scored in many languages: M9 to M15."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from deadhead.claims.cases import TENTHS, all_of_glue, all_of_xnli
from deadhead.claims.evidence import Evidence, Mean, means
from deadhead.claims.from_papers import printed, stated
from deadhead.claims.layer_sets import BLOCKS, behind, half_means, halves, lead, listed
from deadhead.claims.losses import at, drawn, final, scatter
from deadhead.claims.rule import (
    ABOUT,
    above,
    as_stated,
    at_face,
    by_repeats,
    every,
    most,
    over_repeats,
    worst,
)
from deadhead.claims.scope import about, against
from deadhead.claims.strength import signs, spread_words
from deadhead.claims.subjects import BESIDE, MBERT, ON_BOTH, ON_GLUE, ON_XNLI
from deadhead.claims.verdict import Claim, Finding, judged, missing
from deadhead.errors import DataError
from deadhead.results import Score
from deadhead.results.statistics import Order, drop, group_means, grouped, interpolate, ordered

PAPER = "mbert-prunability"
CLASSES = ("SVO", "SOV", "VSO", "Agglutinative")
QUARTER = 25  # percent of the heads
LEVELS = ("high", "medium", "low")


def drops(facts: Iterable[Score], *axes: str) -> dict[tuple[Any, ...], tuple[float, Mean]]:
    """By target and some axes: the relative loss, where the unpruned score of the language is known."""
    facts = list(facts)
    full = means([f for f in facts if f.remove == "none"], "target")
    cells = means([f for f in facts if f.remove != "none"], "target", *axes)
    return {
        key: (drop(full[key[0]].value, cell.value), cell)
        for key, cell in cells.items()
        if key[0] in full and full[key[0]].value
    }


def m9(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = drops([f for f in facts if f.remove == "none"] + drawn(facts), "share")
    curves = drop_curves(found)
    curves = {
        target: curve
        for target, curve in curves.items()
        if all(_around(curve, point) for point in (25, 50, 90))
    }
    if not curves:
        return missing(
            "XNLI scores of an unpruned mBERT and at random shares of heads around 25 %, 50 % and 90 %"
        )
    at = {point: [interpolate(curve, point) for curve in curves.values()] for point in (25, 50, 90)}
    low, high = (stated(PAPER, f"mean_relative_drop_percent_{end}") for end in ("low", "high"))
    wanted = {
        p: stated(PAPER, "mean_relative_drop_percent", task="xnli", percent=str(p))
        for p in (25, 50)
    }
    whole = all_of_xnli(curves)
    parts = [as_stated(at[p], want, ABOUT * want, whole) for p, want in wanted.items()]
    parts.append(as_stated(at[90], (low + high) / 2, (high - low) / 2, whole))
    used = [cell for _, cell in found.values()]
    numbers = "mean relative loss " + ", ".join(
        f"{point} %: {fmean(values):.1f} %" for point, values in at.items()
    )
    return judged(worst(parts), numbers, spread_words(used, evidence.printed), behind(used))


def drop_curves(found: dict[tuple[Any, ...], tuple[float, Mean]]) -> dict[str, dict[float, float]]:
    """By target: the relative loss at each share of heads drawn out, nothing at none."""
    curves: dict[str, dict[float, float]] = {}
    for (target, share), (value, _) in sorted(found.items(), key=lambda item: float(item[0][1])):
        curves.setdefault(target, {0.0: 0.0})[float(share)] = value
    return curves


def headline(evidence: Evidence) -> Finding:
    """Whether more is lost across languages than in one, wherever more than a quarter of the heads is gone."""
    facts = [f for f in final(evidence) if f.remove == "none" or f.strategy == "random"]
    across = _mean_drops([f for f in facts if f.task == "xnli"])
    within = _mean_drops([f for f in facts if f.task != "xnli"])
    leads = {
        share: across[share] - within[share]
        for share in sorted(across)
        if share > QUARTER and share in within
    }
    if len(leads) < 2:
        return missing(
            "XNLI and GLUE scores of mBERT, unpruned and at two random shares of heads beyond 25 %"
        )
    whole = all_of_xnli(f.target for f in facts if f.task == "xnli") and all_of_glue(
        f.task for f in facts if f.task != "xnli"
    )
    draws = [_drop_noise(facts, share) for share in leads]
    shown = every(
        list(leads.values()),
        whole and set(leads) == {share for share in TENTHS if share > QUARTER},
        noise=draws,
    )
    glue, xnli = (
        stated(PAPER, "mean_relative_drop_percent", task=task, percent="50")
        for task in ("glue", "xnli")
    )
    told = ", ".join(f"{share:g} %: {lead:+.2f}" for share, lead in leads.items())
    numbers = f"mean relative loss on XNLI minus that on GLUE: {told} (stated: about {xnli:g} against {glue:g} % at 50 %)"
    used = [f for f in facts if f.remove != "none"]
    return judged(
        shown,
        numbers,
        f"{signs(leads.values())}; {spread_words(means(used, 'task', 'target', 'share').values(), evidence.printed)}",
        used,
    )


def _mean_drops(facts: Iterable[Score]) -> dict[float, float]:
    """By share of heads drawn out: the mean relative loss over tasks and languages."""
    found = [
        (share, value)
        for task in _by_task(facts).values()
        for (_, share), (value, _) in drops(task, "share").items()
    ]
    return {
        share: fmean(value for at, value in found if at == share)
        for share in dict.fromkeys(share for share, _ in found)
    }


def _drop_noise(facts: Iterable[Score], share: float) -> float | None:
    """Half the interval that repeats give the mean loss on XNLI minus that on GLUE at a share; one training is behind all of XNLI."""
    widths = []
    for across in (True, False):
        scaled = []
        for task in _by_task(f for f in facts if (f.task == "xnli") == across).values():
            full = means([f for f in task if f.remove == "none"], "target")
            cells = means(
                [f for f in task if f.remove != "none" and f.share == share and f.target in full],
                "target",
            )
            scaled += [
                [100 * value / full[target].value for value in cell.repeats]
                for target, cell in cells.items()
                if full[target].value
            ]
        widths.append(over_repeats(scaled, shared=across))
    known = [width for width in widths if width is not None]
    return sum(width**2 for width in known) ** 0.5 if known else None


def _by_task(facts: Iterable[Score]) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for fact in facts:
        groups.setdefault(fact.task, []).append(fact)
    return groups


def _around(curve: dict[float, float], point: float) -> bool:
    """Whether the curve has points on both sides, at most 30 % apart."""
    below, above = (
        max((s for s in curve if s <= point), default=None),
        min((s for s in curve if s >= point), default=None),
    )
    return below is not None and above is not None and above - below <= 30


def _per_language(found: dict[tuple[Any, ...], tuple[float, Mean]]) -> dict[str, float]:
    return {
        target: fmean(value for (at, *_), (value, _) in found.items() if at == target)
        for target in dict.fromkeys(k[0] for k in found)
    }


def _order(values: dict[str, float], by: str, names: Sequence[str]) -> Order | None:
    """Whether the means of these classes of languages rise in this order; None where a class has no language here."""
    try:
        return ordered(grouped(values, by), names)
    except DataError:
        return None


def _classed(values: dict[str, float]) -> str:
    """Of how many languages the paper tells the class; the others are in no mean."""
    known = sum(map(len, grouped(values, "word_order").values()))
    return (
        f"{known} languages"
        if known == len(values)
        else f"{known} of {len(values)} languages, those the paper puts in a class"
    )


def m10(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = drops([f for f in facts if f.remove == "none" or f.strategy == "random"], "share")
    each = _per_language(found)
    orders, levels = group_means(each, "word_order"), group_means(each, "resource")
    if not set(CLASSES) <= set(orders) or not set(LEVELS) <= set(levels):
        return missing(
            "XNLI scores at random shares of heads, in a language of every word-order class and resource level"
        )
    margin = min(
        min(orders[name] for name in CLASSES[1:]) - orders["SVO"],
        orders["Agglutinative"] - max(orders[name] for name in CLASSES[:-1]),
        min(levels["medium"], levels["low"]) - levels["high"],
    )
    used = [cell for _, cell in found.values()]
    numbers = f"mean relative loss: {listed(orders)}; {listed(levels)}"
    shown = at_face(margin > 0, margin, all_of_xnli(each))
    return judged(
        shown, numbers, f"{_classed(each)}; {spread_words(used, evidence.printed)}", behind(used)
    )


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
    return (
        {name: fmean(v) for name, v in d.items()},
        {name: fmean(v) for name, v in top_only.items()},
        used,
    )


def m11(evidence: Evidence) -> Finding:
    d, _, used = bottom_against_top(evidence)
    if len(d) < 2:
        return missing(
            "XNLI scores in two languages, unpruned, with the top and with the bottom layers gone"
        )
    worse = sum(value > 0 for value in d.values())
    least = min(d, key=lambda name: d[name])
    numbers = f"the bottom matters more in {worse} of {len(d)} languages; least in {least} ({d[least]:+.2f} %)"
    full = means([f for f in final(evidence) if f.remove == "none"], "target")
    cells = {name: [cell for cell in used if cell.scores[0].target == name] for name in d}
    draws = [
        by_repeats((cell.repeats for cell in some), 200 / len(some) / full[name].value)
        for name, some in cells.items()
    ]
    shown = every(list(d.values()), all_of_xnli(d), noise=draws)
    return judged(
        shown, numbers, f"{signs(d.values())}; {spread_words(used, evidence.printed)}", behind(used)
    )


def m12(evidence: Evidence) -> Finding:
    d, _, used = bottom_against_top(evidence)
    orders, levels = _order(d, "word_order", CLASSES), _order(d, "resource", LEVELS)
    if orders is None or levels is None:
        return missing(
            "XNLI with top and bottom layers gone, in a language of every word-order class and resource level"
        )
    margin = min(orders.margin, levels.margin)
    strength = f"permutation p = {orders.p:.2g} and {levels.p:.2g} over {_classed(d)}; {spread_words(used, evidence.printed)}"
    shown = at_face(margin > 0, margin, all_of_xnli(d))
    return judged(
        shown,
        f"bottom minus top: {listed(orders.means)}; {listed(levels.means)}",
        strength,
        behind(used),
    )


def m13(evidence: Evidence) -> Finding:
    _, top, used = bottom_against_top(evidence)
    order = _order(top, "word_order", CLASSES[::-1])
    if order is None:
        return missing(
            "XNLI with top and bottom layers gone, in a language of every word-order class"
        )
    strength = f"permutation p = {order.p:.2g} over {_classed(top)}; {spread_words(used, evidence.printed)}"
    shown = at_face(order.holds, order.margin, all_of_xnli(top))
    return judged(shown, f"loss with the top gone: {listed(order.means)}", strength, behind(used))


def _middle_lag(facts: Iterable[Score]) -> tuple[dict[tuple[str, str], float], list[Mean]]:
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
            lags.setdefault(place, []).append(
                100 * ((top.value + bottom.value) / 2 - middle.value) / full[place].value
            )
            used += [top, bottom, middle]
    return {place: fmean(values) for place, values in lags.items()}, used


def m14(evidence: Evidence, other: Evidence) -> Finding:
    ours, used = _middle_lag(final(evidence))
    theirs, beside = _middle_lag(final(other))
    printed_ones = not theirs and not other.scores
    if printed_ones:  # the paper, too, takes BERT's numbers over from the one before
        theirs, _ = _middle_lag(f for f in printed().scores if f.model in BESIDE.own)
    if len(ours) < 2 or not theirs:
        return missing(
            "XNLI of mBERT and GLUE of BERT, each unpruned and with top, middle and bottom layers gone"
        )
    bert = fmean(theirs.values())
    less = sum(value < bert for value in ours.values())
    told = f"{fmean(ours.values()):.2f} %, against {bert:.2f} % on {' and '.join(at(*place) for place in theirs)}"
    told += " of BERT as printed" if printed_ones else ""
    numbers = f"middle behind the ends: {told}; less in {less} of {len(ours)} languages"
    strength = f"{signs(bert - value for value in ours.values())}; {spread_words([*used, *beside], evidence.printed)}"
    shown = most(less, len(ours), all_of_xnli(target for _, target in ours))
    return judged(shown, numbers, strength, behind([*used, *beside]))


def m15(evidence: Evidence) -> Finding:
    places = halves(final(evidence))
    by_word, used = half_means(places, fewest=2)
    if not {"even", "odd"} <= set(by_word) or not set(BLOCKS) & set(by_word):
        return missing(
            "XNLI in two languages with the even, the odd and as many layers in a row gone"
        )
    second = max((name for name in by_word if name != "even"), key=lambda name: by_word[name])
    leads, draws = lead(places, "even", second)
    shown = above(leads, 0.0, all_of_xnli(target for _, target in places), draws)
    return judged(
        shown, f"mean left: {listed(by_word)}", spread_words(used, evidence.printed), behind(used)
    )


SD = stated(PAPER, "std_as_percent_of_mean")
CLAIMS = tuple(
    Claim(name, PAPER, statement, judge, unit)
    for name, unit, statement, judge in (
        ("M9", "%", "On XNLI about 2.5 % is lost at 25 % of the heads drawn out, 5 % at 50 %, 10 to 15 % at 90 %.", about(m9, MBERT, ON_XNLI)),
        ("M10", "%", "SVO and high-resource languages lose least on XNLI, agglutinative ones most.", about(m10, MBERT, ON_XNLI)),
        ("M11", "%", "In every language of XNLI cutting bottom layers costs more than cutting top layers.", about(m11, MBERT, ON_XNLI)),
        ("M12", "%", "How much more the bottom matters rises from SVO over SOV and VSO to agglutinative, and from high to low resource.", about(m12, MBERT, ON_XNLI)),
        ("M13", "%", "Without top layers SVO languages lose most, then SOV, then VSO, agglutinative ones least.", about(m13, MBERT, ON_XNLI)),
        ("M14", "languages", "The middle layers matter less for XNLI in mBERT than for GLUE in BERT, in most languages.", against(m14, MBERT, ON_XNLI, BESIDE, ON_GLUE)),
        ("M15", "points", "On XNLI cutting the even layers beats cutting the odd ones or as many in a row, on average.", about(m15, MBERT, ON_XNLI)),
        ("M19", "%", "Beyond 25 % of the heads drawn out mBERT loses more on XNLI than on GLUE.", about(headline, MBERT, ON_BOTH)),
        ("M20", "%", f"Three draws of mBERT's heads differ on XNLI by {SD:g} % of the mean (standard deviation).", about(lambda e: scatter(e, SD), MBERT, ON_XNLI)),
    )
)  # fmt: skip
