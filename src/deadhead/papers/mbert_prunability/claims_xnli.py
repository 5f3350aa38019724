"""Claims of Budhraja et al. 2021 on XNLI, trained on English, scored in 11 languages: M9 to M20."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from deadhead.claims.cases import TENTHS, all_of_glue, all_of_xnli
from deadhead.claims.claim import Claim
from deadhead.claims.evidence import Evidence, Mean, means
from deadhead.claims.from_papers import printed, stated
from deadhead.claims.layer_sets import BLOCKS, half_means, halves, lead, number_list, scores_in
from deadhead.claims.losses import at_random, final, place, spread_of_draws
from deadhead.claims.rule import (
    ABOUT,
    above,
    as_stated,
    by_repeats,
    every,
    exactly,
    most,
    over_repeats,
    worst,
)
from deadhead.claims.scope import Scope
from deadhead.claims.strength import signs, spread_words
from deadhead.claims.subjects import BESIDE, MBERT, ON_BOTH, ON_GLUE, ON_XNLI
from deadhead.claims.verdict import Finding, judged, missing
from deadhead.errors import DataError
from deadhead.results import Score
from deadhead.results.statistics import Order, drop, group_means, grouped, interpolate, ordered

CLASSES = ("SVO", "SOV", "VSO", "Agglutinative")
QUARTER = 25  # percent of the heads
RESOURCES = ("high", "medium", "low")
Drops = dict[tuple[Any, ...], tuple[float, Mean]]


def unpruned(scores: Iterable[Score]) -> list[Score]:
    return [score for score in scores if score.remove == "none"]


def drops(scores: Iterable[Score], *axes: str) -> Drops:
    """By target and axes: the relative loss, where the unpruned score of the language is known."""
    known = list(scores)
    full = means(unpruned(known), "target")
    cells = means([score for score in known if score.remove != "none"], "target", *axes)
    return {
        key: (drop(full[key[0]].value, cell.value), cell)
        for key, cell in cells.items()
        if key[0] in full and full[key[0]].value
    }


def drop_curves(losses: Drops) -> dict[str, dict[float, float]]:
    """By target: the relative loss at each share of heads removed at random, 0 at 0 %."""
    curves: dict[str, dict[float, float]] = {}
    for (target, share), (value, _) in sorted(losses.items(), key=lambda item: float(item[0][1])):
        curves.setdefault(target, {0.0: 0.0})[float(share)] = value
    return curves


def losses_along_the_curve(
    evidence: Evidence, at25: float, at50: float, low: float, high: float
) -> Finding:
    scores = final(evidence)
    losses = drops(unpruned(scores) + at_random(scores), "share")
    curves = {
        target: curve
        for target, curve in drop_curves(losses).items()
        if all(_around(curve, point) for point in (25, 50, 90))
    }
    if not curves:
        return missing(
            "XNLI scores of mBERT, unpruned and at random shares of heads around 25 %, 50 %, 90 %"
        )
    at = {point: [interpolate(curve, point) for curve in curves.values()] for point in (25, 50, 90)}
    whole = all_of_xnli(curves)
    parts = [as_stated(at[p], s, ABOUT * s, whole) for p, s in ((25, at25), (50, at50))]
    parts.append(as_stated(at[90], (low + high) / 2, (high - low) / 2, whole))
    used = [cell for _, cell in losses.values()]
    each = ", ".join(f"{point} %: {fmean(values):.1f} %" for point, values in at.items())
    strength = spread_words(used, evidence.printed)
    return judged(worst(parts), f"mean relative loss {each}", strength, scores_in(used))


def _around(curve: dict[float, float], point: float) -> bool:
    """Whether the curve has points on both sides, at most 30 % apart."""
    below = max((share for share in curve if share <= point), default=None)
    beyond = min((share for share in curve if share >= point), default=None)
    return below is not None and beyond is not None and beyond - below <= 30


def more_lost_across_languages(evidence: Evidence, glue: float, xnli: float) -> Finding:
    """Whether XNLI loses more than GLUE wherever more than a quarter of the heads is removed."""
    scores = [s for s in final(evidence) if s.remove == "none" or s.strategy == "random"]
    across = [score for score in scores if score.task == "xnli"]
    within = [score for score in scores if score.task != "xnli"]
    drop_across, drop_within = _mean_drops(across), _mean_drops(within)
    shares = sorted(share for share in drop_across if share > QUARTER and share in drop_within)
    leads = {share: drop_across[share] - drop_within[share] for share in shares}
    if len(leads) < 2:
        return missing(
            "XNLI and GLUE scores of mBERT, unpruned and at two random shares of heads beyond 25 %"
        )
    tasks = all_of_xnli(s.target for s in across) and all_of_glue(s.task for s in within)
    whole = tasks and set(leads) == {share for share in TENTHS if share > QUARTER}
    widths = [_drop_noise(across, within, share) for share in leads]
    outcome = every(list(leads.values()), whole, noise=widths)
    each = ", ".join(f"{share:g} %: {lead:+.2f}" for share, lead in leads.items())
    numbers = (
        f"mean relative loss on XNLI minus that on GLUE: {each} "
        f"(stated: about {xnli:g} against {glue:g} % at 50 %)"
    )
    used = [score for score in scores if score.remove != "none"]
    cells = means(used, "task", "target", "share").values()
    strength = f"{signs(leads.values())}; {spread_words(cells, evidence.printed)}"
    return judged(outcome, numbers, strength, used)


def _mean_drops(scores: Iterable[Score]) -> dict[float, float]:
    """By share of heads removed at random: the mean relative loss over tasks and languages."""
    values: dict[float, list[float]] = {}
    for group in _by_task(scores).values():
        for (_, share), (value, _) in drops(group, "share").items():
            values.setdefault(share, []).append(value)
    return {share: fmean(group) for share, group in values.items()}


def _drop_noise(across: list[Score], within: list[Score], share: float) -> float | None:
    """Half the interval of the mean loss on XNLI minus that on GLUE; XNLI has one training."""
    widths = []
    for scores in (across, within):
        scaled = []
        for group in _by_task(scores).values():
            full = means(unpruned(group), "target")
            pruned = [s for s in group if s.remove != "none" and s.share == share]
            scaled += [
                [100 * value / full[target].value for value in cell.repeats]
                for target, cell in means(pruned, "target").items()
                if target in full and full[target].value
            ]
        widths.append(over_repeats(scaled, shared=scores is across))
    known = [width for width in widths if width is not None]
    return sum(width**2 for width in known) ** 0.5 if known else None


def _by_task(scores: Iterable[Score]) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(score.task, []).append(score)
    return groups


def _order(values: dict[str, float], by: str, names: Sequence[str]) -> Order | None:
    """Whether the means of classes of languages rise in this order; None if one has no language."""
    try:
        return ordered(grouped(values, by), names)
    except DataError:
        return None


def _classed(values: dict[str, float]) -> str:
    """The number of languages that the paper puts in a class; the others are in no mean."""
    known = sum(map(len, grouped(values, "word_order").values()))
    if known == len(values):
        return f"{known} languages"
    return f"{known} of {len(values)} languages, those the paper puts in a class"


def svo_and_high_resource_lose_least(evidence: Evidence) -> Finding:
    scores = [s for s in final(evidence) if s.remove == "none" or s.strategy == "random"]
    losses = drops(scores, "share")
    values: dict[str, list[float]] = {}
    for (target, _), (value, _) in losses.items():
        values.setdefault(target, []).append(value)
    by_language = {target: fmean(group) for target, group in values.items()}
    orders, levels = group_means(by_language, "word_order"), group_means(by_language, "resource")
    if not set(CLASSES) <= set(orders) or not set(RESOURCES) <= set(levels):
        return missing(
            "XNLI scores at random shares of heads, in a language of every word-order class and "
            "resource level"
        )
    margin = min(
        min(orders[name] for name in CLASSES[1:]) - orders["SVO"],
        orders["Agglutinative"] - max(orders[name] for name in CLASSES[:-1]),
        min(levels["medium"], levels["low"]) - levels["high"],
    )
    used = [cell for _, cell in losses.values()]
    numbers = f"mean relative loss: {number_list(orders)}; {number_list(levels)}"
    strength = f"{_classed(by_language)}; {spread_words(used, evidence.printed)}"
    outcome = exactly(margin > 0, margin, all_of_xnli(by_language))
    return judged(outcome, numbers, strength, scores_in(used))


def bottom_against_top(evidence: Evidence) -> tuple[dict[str, float], dict[str, float], list[Mean]]:
    """By language: loss without the bottom minus that without the top; the latter; the cells."""
    losses = drops([s for s in final(evidence) if s.remove == "none" or s.shape], "shape")
    differences: dict[str, list[float]] = {}
    tops: dict[str, list[float]] = {}
    used = []
    for (target, (word, n)), (value, cell) in losses.items():
        bottom = losses.get((target, ("bottom", n))) if word == "top" else None
        if bottom is not None:
            differences.setdefault(target, []).append(bottom[0] - value)
            tops.setdefault(target, []).append(value)
            used += [cell, bottom[1]]
    means_of = [{name: fmean(v) for name, v in by.items()} for by in (differences, tops)]
    return means_of[0], means_of[1], used


def bottom_matters_more(evidence: Evidence) -> Finding:
    differences, _, used = bottom_against_top(evidence)
    if len(differences) < 2:
        return missing(
            "XNLI scores in two languages, unpruned, without the top and without the bottom layers"
        )
    values = list(differences.values())
    least = min(differences, key=lambda name: differences[name])
    numbers = (
        f"the bottom matters more in {sum(v > 0 for v in values)} of {len(values)} languages; "
        f"least in {least} ({differences[least]:+.2f} %)"
    )
    full = means(unpruned(final(evidence)), "target")
    cells = {name: [c for c in used if c.scores[0].target == name] for name in differences}
    widths = [
        by_repeats((cell.repeats for cell in group), 200 / len(group) / full[name].value)
        for name, group in cells.items()
    ]
    outcome = every(values, all_of_xnli(differences), noise=widths)
    strength = f"{signs(values)}; {spread_words(used, evidence.printed)}"
    return judged(outcome, numbers, strength, scores_in(used))


def bottom_matters_in_order(evidence: Evidence) -> Finding:
    differences, _, used = bottom_against_top(evidence)
    orders = _order(differences, "word_order", CLASSES)
    levels = _order(differences, "resource", RESOURCES)
    if orders is None or levels is None:
        return missing(
            "XNLI without top and bottom layers, in a language of every word-order class and "
            "resource level"
        )
    margin = min(orders.margin, levels.margin)
    strength = (
        f"permutation p = {orders.p:.2g} and {levels.p:.2g} over {_classed(differences)}; "
        f"{spread_words(used, evidence.printed)}"
    )
    numbers = f"bottom minus top: {number_list(orders.means)}; {number_list(levels.means)}"
    outcome = exactly(margin > 0, margin, all_of_xnli(differences))
    return judged(outcome, numbers, strength, scores_in(used))


def svo_loses_most_without_the_top(evidence: Evidence) -> Finding:
    _, tops, used = bottom_against_top(evidence)
    order = _order(tops, "word_order", CLASSES[::-1])
    if order is None:
        return missing(
            "XNLI without top and bottom layers, in a language of every word-order class"
        )
    chance = f"permutation p = {order.p:.2g} over {_classed(tops)}"
    outcome = exactly(order.holds, order.margin, all_of_xnli(tops))
    numbers = f"loss without the top: {number_list(order.means)}"
    strength = f"{chance}; {spread_words(used, evidence.printed)}"
    return judged(outcome, numbers, strength, scores_in(used))


def _middle_lag(scores: Iterable[Score]) -> tuple[dict[tuple[str, str], float], list[Mean]]:
    """By task and language: how much more, in percent, is lost without the middle than the ends."""
    known = list(scores)
    full = means(unpruned(known), "task", "target")
    cells = means([score for score in known if score.shape], "task", "target", "shape")
    lags: dict[tuple[str, str], list[float]] = {}
    used = []
    for (task, target, (word, n)), middle in cells.items():
        top, bottom = (cells.get((task, target, (end, n))) for end in ("top", "bottom"))
        if word == "middle" and top and bottom and (task, target) in full:
            lag = (top.value + bottom.value) / 2 - middle.value
            lags.setdefault((task, target), []).append(100 * lag / full[task, target].value)
            used += [top, bottom, middle]
    return {where: fmean(values) for where, values in lags.items()}, used


def middle_matters_less_than_in_bert(evidence: Evidence, other: Evidence) -> Finding:
    ours, used = _middle_lag(final(evidence))
    theirs, beside = _middle_lag(final(other))
    as_printed = not theirs and not other.scores
    if as_printed:  # the paper, too, takes BERT's numbers from the one before
        theirs, _ = _middle_lag(
            s for s in printed("mbert-prunability").scores if s.model in BESIDE.own
        )
    if len(ours) < 2 or not theirs:
        return missing(
            "XNLI of mBERT and GLUE of BERT, unpruned and without top, middle and bottom layers"
        )
    bert = fmean(theirs.values())
    less = sum(value < bert for value in ours.values())
    places = " and ".join(place(*where) for where in theirs)
    source = " of BERT as printed" if as_printed else ""
    numbers = (
        f"middle behind the ends: {fmean(ours.values()):.2f} %, against {bert:.2f} % on "
        f"{places}{source}; less in {less} of {len(ours)} languages"
    )
    both = [*used, *beside]
    strength = f"{signs(bert - v for v in ours.values())}; {spread_words(both, evidence.printed)}"
    outcome = most(less, len(ours), all_of_xnli(target for _, target in ours))
    return judged(outcome, numbers, strength, scores_in(both))


def even_layers_are_best(evidence: Evidence) -> Finding:
    places = halves(final(evidence))
    left, used = half_means(places, fewest=2)
    if not {"even", "odd"} <= set(left) or not set(BLOCKS) & set(left):
        return missing(
            "XNLI in two languages without the even, the odd and as many layers in a row"
        )
    second = max((name for name in left if name != "even"), key=lambda name: left[name])
    leads, width = lead(places, "even", second)
    outcome = above(leads, 0.0, all_of_xnli(target for _, target in places), width)
    strength = spread_words(used, evidence.printed)
    return judged(outcome, f"mean left: {number_list(left)}", strength, scores_in(used))


says = partial(stated, "mbert-prunability")
loss_at = partial(says, "mean_relative_drop_percent")
MBERT_ON_XNLI = Scope(models=MBERT, tasks=ON_XNLI)
XNLI_AND_GLUE = Scope(models=MBERT, tasks=ON_BOTH)
AGAINST_BERT = Scope(models=MBERT, tasks=ON_XNLI, others=BESIDE, other_tasks=ON_GLUE)

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    Claim("M9", "%", losses_along_the_curve, MBERT_ON_XNLI,
          "On XNLI about {at25:g} % is lost at 25 % of the heads removed at random, {at50:g} % at "
          "50 %, {low:g} to {high:g} % at 90 %.",
          numbers={"at25": loss_at(task="xnli", percent="25"),
                   "at50": loss_at(task="xnli", percent="50"),
                   "low": says("mean_relative_drop_percent_low"),
                   "high": says("mean_relative_drop_percent_high")}),
    Claim("M10", "%", svo_and_high_resource_lose_least, MBERT_ON_XNLI,
          "SVO and high-resource languages lose least on XNLI, agglutinative ones most."),
    Claim("M11", "%", bottom_matters_more, MBERT_ON_XNLI,
          "In every language of XNLI cutting bottom layers costs more than cutting top layers."),
    Claim("M12", "%", bottom_matters_in_order, MBERT_ON_XNLI,
          "How much more the bottom matters rises from SVO over SOV and VSO to agglutinative, and "
          "from high to low resource."),
    Claim("M13", "%", svo_loses_most_without_the_top, MBERT_ON_XNLI,
          "Without top layers SVO languages lose most, then SOV, then VSO, agglutinative ones "
          "least."),
    Claim("M14", "languages", middle_matters_less_than_in_bert, AGAINST_BERT,
          "The middle layers matter less for XNLI in mBERT than for GLUE in BERT, in most "
          "languages."),
    Claim("M15", "points", even_layers_are_best, MBERT_ON_XNLI,
          "On XNLI cutting the even layers beats cutting the odd ones or as many in a row, on "
          "average."),
    Claim("M19", "%", more_lost_across_languages, XNLI_AND_GLUE,
          "Beyond 25 % of the heads removed at random mBERT loses more on XNLI than on GLUE.",
          numbers={task: loss_at(task=task, percent="50") for task in ("glue", "xnli")}),
    Claim("M20", "%", spread_of_draws, MBERT_ON_XNLI,
          "Three draws of mBERT's heads differ on XNLI by {deviation:g} % of the mean (standard "
          "deviation).",
          numbers={"deviation": says("std_as_percent_of_mean")}),
)
# fmt: on
