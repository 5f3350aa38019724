"""Claims of Budhraja et al. 2021 on XNLI in 11 languages: M9 to M15, M19, M20 and M22."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean

from deadhead.errors import DataError
from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import BERT, MBERT, ON_BOTH, ON_GLUE, ON_XNLI, Claim, Scope
from deadhead.papers.claims.evidence import (
    TENTHS,
    Evidence,
    Mean,
    all_of_glue,
    all_of_xnli,
    group_by,
    means,
)
from deadhead.papers.claims.from_papers import printed, stated
from deadhead.papers.claims.losses import (
    BLOCKS,
    Loss,
    TaskLanguage,
    at_random,
    find_losses,
    half_means,
    halves,
    is_better,
    lag,
    middles,
    place,
    spread_of_draws,
)
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results.statistics import group_means, grouped, interpolate, ordered

CLASSES = ("SVO", "SOV", "VSO", "Agglutinative")
TWO = "{} {:.2f}"  # a name and a number with two decimals
QUARTER = 25  # percent of the heads
RESOURCES = ("high", "medium", "low")


def losses_along_the_curve(
    evidence: Evidence, at25: float, at50: float, low: float, high: float
) -> Finding:
    losses = at_random(evidence)
    # By target: the relative loss at each share of heads removed at random, 0 at 0 %.
    all_curves = {
        target: {0.0: 0.0, **{loss.share: loss.percent for loss in group}}
        for target, group in group_by(losses, "target").items()
    }
    curves = [c for c in all_curves.items() if all(_around(c[1], at) for at in (25, 50, 90))]
    if not curves:
        return missing(
            "XNLI scores of mBERT, unpruned and at random shares of heads around 25 %, 50 %, 90 %"
        )
    at = {point: [interpolate(curve, point) for _, curve in curves] for point in (25, 50, 90)}
    whole = all_of_xnli(target for target, _ in curves)
    parts = [
        rule.as_stated(at[25], at25, rule.ABOUT * at25, whole),
        rule.as_stated(at[50], at50, rule.ABOUT * at50, whole),
        rule.as_stated(at[90], (low + high) / 2, (high - low) / 2, whole),
    ]
    used = [loss.cell for loss in losses]
    each = listed({point: fmean(values) for point, values in at.items()}, "{} %: {:.1f} %")
    return judged(rule.worst(parts), f"mean relative loss {each}", used)


def _around(curve: dict[float, float], point: float) -> bool:
    """Whether the curve has points on both sides, at most 30 % apart."""
    below = max((share for share in curve if share <= point), default=None)
    beyond = min((share for share in curve if share >= point), default=None)
    return below is not None and beyond is not None and beyond - below <= 30


def more_lost_across_languages(evidence: Evidence, glue: float, xnli: float) -> Finding:
    """Whether XNLI loses more than GLUE wherever more than a quarter of the heads is removed."""
    losses = without_random_heads(evidence)
    rising = sorted(losses, key=lambda loss: loss.share)
    across = group_by((loss for loss in rising if loss.task == "xnli"), "share")
    within = group_by((loss for loss in rising if loss.task != "xnli"), "share")
    leads = {
        share: fmean(loss.percent for loss in group) - fmean(x.percent for x in within[share])
        for share, group in across.items()
        if share > QUARTER and share in within
    }
    if len(leads) < 2:
        return missing(
            "XNLI and GLUE scores of mBERT, unpruned and at two random shares of heads beyond 25 %"
        )
    all_tasks = all_of_xnli(loss.target for group in across.values() for loss in group)
    all_tasks = all_tasks and all_of_glue(x.task for group in within.values() for x in group)
    whole = all_tasks and set(leads) == {share for share in TENTHS if share > QUARTER}
    widths = [
        rule.joint(
            # XNLI has one training.
            rule.over_repeats(map(_repeats_in_percent, across[share]), shared=True),
            rule.over_repeats(map(_repeats_in_percent, within[share])),
        )
        for share in leads
    ]
    outcome = rule.every(list(leads.values()), whole, noise=widths)
    paper_numbers = f"(stated: about {xnli:g} against {glue:g} % at 50 %)"
    each = f"{listed(leads, '{:g} %: {:+.2f}')} {paper_numbers}"
    numbers = f"mean relative loss on XNLI minus that on GLUE: {each}"
    return judged(outcome, numbers, [loss.cell for loss in losses], rule.signs(leads.values()))


def without_random_heads(evidence: Evidence) -> list[Loss]:
    return find_losses(evidence, [s for s in evidence.final if s.strategy == "random"])


def _repeats_in_percent(loss: Loss) -> list[float]:
    return [100 * value / loss.full.value for value in loss.cell.repeats]


def _classed(values: dict[str, float]) -> str:
    """The number of languages that the paper puts in a class; the others are in no mean."""
    known = sum(map(len, grouped(values, "word_order").values()))
    if known == len(values):
        return f"{known} languages"
    return f"{known} of {len(values)} languages, those the paper puts in a class"


def svo_and_high_resource_lose_least(evidence: Evidence) -> Finding:
    losses = without_random_heads(evidence)
    by_language = {
        target: fmean(loss.percent for loss in group)
        for target, group in group_by(losses, "target").items()
    }
    orders, levels = group_means(by_language, "word_order"), group_means(by_language, "resource")
    if not set(CLASSES) <= set(orders) or not set(RESOURCES) <= set(levels):
        return missing(
            "XNLI scores at random shares of heads, in a language of every word-order class "
            "and resource level"
        )
    margin = min(
        min(orders[name] for name in CLASSES[1:]) - orders["SVO"],
        orders["Agglutinative"] - max(orders[name] for name in CLASSES[:-1]),
        min(levels["medium"], levels["low"]) - levels["high"],
    )
    used = [loss.cell for loss in losses]
    numbers = f"mean relative loss: {listed(orders, TWO)}; {listed(levels, TWO)}"
    outcome = rule.exactly(margin > 0, margin, all_of_xnli(by_language))
    return judged(outcome, numbers, used, _classed(by_language))


def bottom_and_top(evidence: Evidence) -> dict[str, list[tuple[Loss, Loss]]]:
    """By language: the losses without as many layers at the bottom and at the top."""
    cut = [score for score in evidence.final if score.shape]
    losses = {
        (loss.target, loss.cell.scores[0].shape): loss
        for loss in find_losses(evidence, cut, "shape")
    }
    pairs: dict[str, list[tuple[Loss, Loss]]] = {}
    for (target, shape), loss in losses.items():
        word, n = shape or ("", 0)
        bottom = losses.get((target, ("bottom", n))) if word == "top" else None
        if bottom is not None:
            pairs.setdefault(target, []).append((bottom, loss))
    return pairs


def _cells(pairs: Mapping[str, list[tuple[Loss, Loss]]]) -> list[Mean]:
    return [loss.cell for group in pairs.values() for pair in group for loss in pair]


def bottom_matters_more(evidence: Evidence) -> Finding:
    pairs = bottom_and_top(evidence)
    if len(pairs) < 2:
        return missing(
            "XNLI scores in two languages, unpruned, without the top and without the bottom layers"
        )
    differences = _mean_losses(pairs, "bottom minus top")
    values = list(differences.values())
    least = min(differences, key=lambda name: differences[name])
    ahead = f"in {sum(v > 0 for v in values)} of {len(values)} languages"
    numbers = f"the bottom matters more {ahead}; least in {least} ({differences[least]:+.2f} %)"
    widths = [
        rule.by_repeats(
            (loss.cell.repeats for pair in group for loss in pair),
            100 / len(group) / group[0][0].full.value,
        )
        for group in pairs.values()
    ]
    outcome = rule.every(values, all_of_xnli(differences), noise=widths)
    return judged(outcome, numbers, _cells(pairs), rule.signs(values))


KINDS_OF_LOSS: dict[str, Callable[[Loss, Loss], float]] = {
    "bottom minus top": lambda bottom, top: bottom.percent - top.percent,
    "loss without the top": lambda bottom, top: top.percent,
    "loss without the bottom": lambda bottom, top: bottom.percent,
}


def _mean_losses(pairs: Mapping[str, list[tuple[Loss, Loss]]], kind: str) -> dict[str, float]:
    return {
        target: fmean(KINDS_OF_LOSS[kind](*pair) for pair in group)
        for target, group in pairs.items()
    }


def loss_rises(
    evidence: Evidence, kind: str, classes: Sequence[str] = CLASSES, resources: Sequence[str] = ()
) -> Finding:
    """Whether a loss rises in this order of word-order classes, and of resource levels if named."""
    pairs = bottom_and_top(evidence)
    losses = _mean_losses(pairs, kind)
    groups = {"word_order": classes, "resource": resources}
    try:
        orders = [ordered(grouped(losses, by), names) for by, names in groups.items() if names]
    except DataError:  # a class without a language
        what = "XNLI without top and bottom layers, in a language of every word-order class"
        return missing(f"{what} and resource level" if resources else what)
    margin = min(order.margin for order in orders)
    outcome = rule.exactly(margin > 0, margin, all_of_xnli(losses))
    numbers = f"{kind}: {'; '.join(listed(order.means, TWO) for order in orders)}"
    ps = " and ".join(f"{order.p:.2g}" for order in orders)
    chance = f"permutation p = {ps} over {_classed(losses)}"
    return judged(outcome, numbers, _cells(pairs), chance)


def _middle_lag(evidence: Evidence) -> tuple[dict[TaskLanguage, float], list[Mean]]:
    """By task and language: how much more, in percent, is lost without the middle than the ends."""
    unpruned = (score for score in evidence.final if score.remove == "none")
    full = means(unpruned, "task", "target")
    lags: dict[TaskLanguage, list[float]] = {}
    used: list[Mean] = []
    for where, *cells in middles(evidence):
        if where in full:
            lags.setdefault(where, []).append(100 * lag(*cells) / full[where].value)
            used += cells
    return {where: fmean(values) for where, values in lags.items()}, used


def middle_matters_less_than_in_bert(evidence: Evidence, other: Evidence) -> Finding:
    ours, used = _middle_lag(evidence)
    theirs, beside = _middle_lag(other)
    as_printed = not theirs and not other.scores
    if as_printed:  # the paper, too, takes BERT's numbers from the one before
        scores = printed("mbert-prunability").scores
        theirs, _ = _middle_lag(Evidence(scores=tuple(s for s in scores if s.model in BERT.own)))
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
    outcome = rule.most(less, len(ours), all_of_xnli(target for _, target in ours))
    strength = rule.signs(bert - v for v in ours.values())
    return judged(outcome, numbers, [*used, *beside], strength)


def even_layers_are_best(evidence: Evidence) -> Finding:
    places = halves(evidence)
    left, used = half_means(places)
    if len(places) < 2 or not {"even", "odd"} <= set(left) or not set(BLOCKS) & set(left):
        return missing(
            "XNLI in two languages without the even, the odd and as many layers in a row"
        )
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
    Claim("M12", "%", partial(loss_rises, kind="bottom minus top", resources=RESOURCES),
          MBERT_ON_XNLI,
          "How much more the bottom matters rises from SVO over SOV and VSO to agglutinative, and "
          "from high to low resource."),
    Claim("M13", "%", partial(loss_rises, kind="loss without the top", classes=CLASSES[::-1]),
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
    Claim("M22", "%", partial(loss_rises, kind="loss without the bottom"), MBERT_ON_XNLI,
          "Without bottom layers agglutinative languages lose most, then VSO, then SOV, SVO ones "
          "least."),
)
# fmt: on
