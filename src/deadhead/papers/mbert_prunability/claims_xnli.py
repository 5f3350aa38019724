"""Claims of Budhraja et al. 2021 on XNLI, trained on English, scored in 11 languages: M9 to M15, M19, M20, M22."""

from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from deadhead.errors import DataError
from deadhead.papers.claims import rule
from deadhead.papers.claims.cases import TENTHS, all_of_glue, all_of_xnli
from deadhead.papers.claims.claim import Claim
from deadhead.papers.claims.evidence import Evidence, Mean, means
from deadhead.papers.claims.from_papers import printed, stated
from deadhead.papers.claims.layer_sets import BLOCKS, half_means, halves, is_better
from deadhead.papers.claims.losses import at_random, place, spread_of_draws
from deadhead.papers.claims.scope import BERT, MBERT, ON_BOTH, ON_GLUE, ON_XNLI, Scope
from deadhead.papers.claims.strength import signs
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results import Score
from deadhead.results.statistics import Order, drop, group_means, grouped, interpolate, ordered

CLASSES = ("SVO", "SOV", "VSO", "Agglutinative")
TWO = "{} {:.2f}"  # a name and a number with two decimals
QUARTER = 25  # percent of the heads
RESOURCES = ("high", "medium", "low")
Drops = dict[tuple[Any, ...], tuple[float, Mean, float]]


def unpruned(scores: Iterable[Score]) -> list[Score]:
    return [score for score in scores if score.remove == "none"]


def drops(scores: Iterable[Score], *axes: str) -> Drops:
    """By target and axes: the relative loss, the pruned and the unpruned score, if it is known."""
    known = list(scores)
    full = means(unpruned(known), "target")
    cells = means([score for score in known if score.remove != "none"], "target", *axes)
    return {
        key: (drop(full[key[0]].value, cell.value), cell, full[key[0]].value)
        for key, cell in cells.items()
        if key[0] in full and full[key[0]].value
    }


def losses_along_the_curve(
    evidence: Evidence, at25: float, at50: float, low: float, high: float
) -> Finding:
    scores = evidence.final
    losses = drops(unpruned(scores) + at_random(scores), "share")
    # By target: the relative loss at each share of heads removed at random, 0 at 0 %.
    all_curves: dict[str, dict[float, float]] = {}
    for (target, share), (value, *_) in sorted(losses.items(), key=lambda item: float(item[0][1])):
        all_curves.setdefault(target, {0.0: 0.0})[float(share)] = value
    curves = [c for c in all_curves.items() if all(_around(c[1], at) for at in (25, 50, 90))]
    if not curves:
        what = "XNLI scores of mBERT, unpruned and at random shares of heads"
        return missing(f"{what} around 25 %, 50 %, 90 %")
    at = {point: [interpolate(curve, point) for _, curve in curves] for point in (25, 50, 90)}
    whole = all_of_xnli(target for target, _ in curves)
    parts = [
        rule.as_stated(at[25], at25, rule.ABOUT * at25, whole),
        rule.as_stated(at[50], at50, rule.ABOUT * at50, whole),
        rule.as_stated(at[90], (low + high) / 2, (high - low) / 2, whole),
    ]
    used = [cell for _, cell, _ in losses.values()]
    each = listed({point: fmean(values) for point, values in at.items()}, "{} %: {:.1f} %")
    return judged(rule.worst(parts), f"mean relative loss {each}", used)


def _around(curve: dict[float, float], point: float) -> bool:
    """Whether the curve has points on both sides, at most 30 % apart."""
    below = max((share for share in curve if share <= point), default=None)
    beyond = min((share for share in curve if share >= point), default=None)
    return below is not None and beyond is not None and beyond - below <= 30


def more_lost_across_languages(evidence: Evidence, glue: float, xnli: float) -> Finding:
    """Whether XNLI loses more than GLUE wherever more than a quarter of the heads is removed."""
    scores = [s for s in evidence.final if s.remove == "none" or s.strategy == "random"]
    xnli_scores = [score for score in scores if score.task == "xnli"]
    glue_scores = [score for score in scores if score.task != "xnli"]
    across, within = _drops_by_share(xnli_scores), _drops_by_share(glue_scores)
    leads = {
        share: fmean(loss for loss, _ in across[share]) - fmean(loss for loss, _ in within[share])
        for share in sorted(across)
        if share > QUARTER and share in within
    }
    if len(leads) < 2:
        what = "XNLI and GLUE scores of mBERT, unpruned"
        return missing(f"{what} and at two random shares of heads beyond 25 %")
    tasks = all_of_xnli(s.target for s in xnli_scores) and all_of_glue(s.task for s in glue_scores)
    whole = tasks and set(leads) == {share for share in TENTHS if share > QUARTER}
    widths = [
        rule.joint(
            # XNLI has one training.
            rule.over_repeats((repeats for _, repeats in across[share]), shared=True),
            rule.over_repeats(repeats for _, repeats in within[share]),
        )
        for share in leads
    ]
    outcome = rule.every(list(leads.values()), whole, noise=widths)
    paper_numbers = f"(stated: about {xnli:g} against {glue:g} % at 50 %)"
    each = f"{listed(leads, '{:g} %: {:+.2f}')} {paper_numbers}"
    numbers = f"mean relative loss on XNLI minus that on GLUE: {each}"
    pruned = [score for score in scores if score.remove != "none"]
    cells = means(pruned, "task", "target", "share").values()
    return judged(outcome, numbers, cells, signs(leads.values()))


def _drops_by_share(scores: Iterable[Score]) -> dict[float, list[tuple[float, list[float]]]]:
    """By share of heads: for each task and language the relative loss, and the repeats in %."""
    values: dict[float, list[tuple[float, list[float]]]] = {}
    for group in means(scores, "task").values():
        for (_, share), (loss, cell, full) in drops(group.scores, "share").items():
            repeats = [100 * value / full for value in cell.repeats]
            values.setdefault(share, []).append((loss, repeats))
    return values


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
    scores = [s for s in evidence.final if s.remove == "none" or s.strategy == "random"]
    losses = drops(scores, "share")
    values: dict[str, list[float]] = {}
    for (target, _), (value, *_) in losses.items():
        values.setdefault(target, []).append(value)
    by_language = {target: fmean(group) for target, group in values.items()}
    orders, levels = group_means(by_language, "word_order"), group_means(by_language, "resource")
    if not set(CLASSES) <= set(orders) or not set(RESOURCES) <= set(levels):
        what = "XNLI scores at random shares of heads, in a language of every word-order class"
        return missing(f"{what} and resource level")
    margin = min(
        min(orders[name] for name in CLASSES[1:]) - orders["SVO"],
        orders["Agglutinative"] - max(orders[name] for name in CLASSES[:-1]),
        min(levels["medium"], levels["low"]) - levels["high"],
    )
    used = [cell for _, cell, _ in losses.values()]
    numbers = f"mean relative loss: {listed(orders, TWO)}; {listed(levels, TWO)}"
    outcome = rule.exactly(margin > 0, margin, all_of_xnli(by_language))
    return judged(outcome, numbers, used, _classed(by_language))


def bottom_against_top(evidence: Evidence) -> tuple[dict[str, float], dict[str, float], list[Mean]]:
    """By language: loss without the bottom minus that without the top; the latter; the cells."""
    losses = drops([s for s in evidence.final if s.remove == "none" or s.shape], "shape")
    differences: dict[str, list[float]] = {}
    tops: dict[str, list[float]] = {}
    used = []
    for (target, (word, n)), (value, cell, _) in losses.items():
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
        what = "XNLI scores in two languages, unpruned"
        return missing(f"{what}, without the top and without the bottom layers")
    values = list(differences.values())
    least = min(differences, key=lambda name: differences[name])
    ahead = f"in {sum(v > 0 for v in values)} of {len(values)} languages"
    numbers = f"the bottom matters more {ahead}; least in {least} ({differences[least]:+.2f} %)"
    full = means(unpruned(evidence.final), "target")
    cells = {name: [c for c in used if c.scores[0].target == name] for name in differences}
    widths = [
        rule.by_repeats((cell.repeats for cell in group), 200 / len(group) / full[name].value)
        for name, group in cells.items()
    ]
    outcome = rule.every(values, all_of_xnli(differences), noise=widths)
    return judged(outcome, numbers, used, signs(values))


def bottom_matters_in_order(evidence: Evidence) -> Finding:
    differences, _, used = bottom_against_top(evidence)
    orders = _order(differences, "word_order", CLASSES)
    levels = _order(differences, "resource", RESOURCES)
    if orders is None or levels is None:
        what = "XNLI without top and bottom layers, in a language of every word-order class"
        return missing(f"{what} and resource level")
    margin = min(orders.margin, levels.margin)
    chance = f"permutation p = {orders.p:.2g} and {levels.p:.2g} over {_classed(differences)}"
    numbers = f"bottom minus top: {listed(orders.means, TWO)}; {listed(levels.means, TWO)}"
    outcome = rule.exactly(margin > 0, margin, all_of_xnli(differences))
    return judged(outcome, numbers, used, chance)


def order_without_an_end(evidence: Evidence, end: str, classes: Sequence[str]) -> Finding:
    """Whether the loss without the top, or without the bottom, rises in this order of classes."""
    differences, tops, used = bottom_against_top(evidence)
    bottoms = {name: differences[name] + tops[name] for name in tops}
    losses = {"top": tops, "bottom": bottoms}[end]
    order = _order(losses, "word_order", classes)
    if order is None:
        what = "XNLI without top and bottom layers, in a language of every word-order class"
        return missing(what)
    chance = f"permutation p = {order.p:.2g} over {_classed(losses)}"
    outcome = rule.exactly(order.holds, order.margin, all_of_xnli(losses))
    numbers = f"loss without the {end}: {listed(order.means, TWO)}"
    return judged(outcome, numbers, used, chance)


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
    ours, used = _middle_lag(evidence.final)
    theirs, beside = _middle_lag(other.final)
    as_printed = not theirs and not other.scores
    if as_printed:  # the paper, too, takes BERT's numbers from the one before
        scores = printed("mbert-prunability").scores
        theirs, _ = _middle_lag(s for s in scores if s.model in BERT.own)
    if len(ours) < 2 or not theirs:
        what = "XNLI of mBERT and GLUE of BERT, unpruned"
        return missing(f"{what} and without top, middle and bottom layers")
    bert = fmean(theirs.values())
    less = sum(value < bert for value in ours.values())
    places = " and ".join(place(*where) for where in theirs)
    source = " of BERT as printed" if as_printed else ""
    numbers = (
        f"middle behind the ends: {fmean(ours.values()):.2f} %, against {bert:.2f} % on "
        f"{places}{source}; less in {less} of {len(ours)} languages"
    )
    outcome = rule.most(less, len(ours), all_of_xnli(target for _, target in ours))
    strength = signs(bert - v for v in ours.values())
    return judged(outcome, numbers, [*used, *beside], strength)


def even_layers_are_best(evidence: Evidence) -> Finding:
    places = halves(evidence.final)
    left, used = half_means(places, fewest=2)
    if not {"even", "odd"} <= set(left) or not set(BLOCKS) & set(left):
        what = "XNLI in two languages without the even, the odd and as many layers in a row"
        return missing(what)
    second = max({*left} - {"even"}, key=left.__getitem__)
    outcome = is_better(places, "even", second, all_of_xnli(target for _, target in places))
    return judged(outcome, f"mean left: {listed(left, TWO)}", used)


says = partial(stated, "mbert-prunability")
loss_at = partial(says, "mean_relative_drop_percent")
MBERT_ON_XNLI = Scope(models=MBERT, tasks=ON_XNLI)
XNLI_AND_GLUE = Scope(models=MBERT, tasks=ON_BOTH)
AGAINST_BERT = Scope(models=MBERT, tasks=ON_XNLI, others=BERT, other_tasks=ON_GLUE)

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
    Claim("M13", "%", partial(order_without_an_end, end="top", classes=CLASSES[::-1]),
          MBERT_ON_XNLI, "Without top layers SVO languages lose most, then SOV, then VSO, "
          "agglutinative ones least."),
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
    Claim("M22", "%", partial(order_without_an_end, end="bottom", classes=CLASSES), MBERT_ON_XNLI,
          "Without bottom layers agglutinative languages lose most, then VSO, then SOV, SVO ones "
          "least."),
)
# fmt: on
