"""Claims of Budhraja et al. 2021 on GLUE: M1 to M8."""

from collections.abc import Iterable
from functools import partial
from statistics import fmean
from typing import Any

from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import BERT, EITHER, MBERT, ON_GLUE, Claim, Scope, short
from deadhead.papers.claims.evidence import GLUE, TENTHS, Evidence, Mean, all_of_glue, means
from deadhead.papers.claims.from_papers import stated
from deadhead.papers.claims.losses import (
    ALTERNATE,
    BLOCKS,
    TaskLanguage,
    covers_glue,
    half_means,
    halves,
    is_better,
    lag,
    middles,
    near,
    noise,
    place,
)
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results import Score

SAME_AS_BERT = ("qqp", "qnli")  # tasks on which mBERT is said to be level with BERT
THIRD = 100 / 3  # percent of the layers: four of twelve
TWO = "{} {:.2f}"  # a name and a number with two decimals


def middle_is_the_worst_half(evidence: Evidence) -> Finding:
    places = halves(evidence)
    means_left, used = half_means(places)
    if "middle" not in means_left or len(means_left) < 3:
        return missing(
            "accuracy without the middle and without as many other layers, in three ways"
        )
    next_worst = min({*means_left} - {"middle"}, key=means_left.__getitem__)
    outcome = is_better(places, next_worst, "middle", covers_glue(places))
    return judged(outcome, f"mean left: {listed(means_left, TWO)}", used)


def alternate_layers_beat_blocks(evidence: Evidence) -> Finding:
    places = halves(evidence)
    pairs = {
        (place(*where), block, other): (cells[other], cells[block])
        for where, cells in places.items()
        for block in BLOCKS
        for other in ALTERNATE
        if {block, other} <= set(cells)
    }
    if len(pairs) < 4:
        return missing(
            "accuracy without the odd or even layers, and without as many in a row, "
            "in four comparisons"
        )
    leads, widths = rule.differences(pairs.values())
    against = [
        f"{task}: {block} beats {other} by {-lead:.2f}"
        for (task, block, other), lead in zip(pairs, leads, strict=True)
        if lead < 0
    ]
    won = f"{sum(lead > 0 for lead in leads)} of {len(leads)} comparisons"
    words = (*BLOCKS, *ALTERNATE)
    used = [c for cells in places.values() for word, c in cells.items() if word in words]
    whole = covers_glue(places) and len(leads) == len(places) * len(BLOCKS) * len(ALTERNATE)
    outcome = rule.every(leads, whole, ties=True, noise=widths)
    numbers = f"{won}; {', '.join(against)}" if against else won
    return judged(outcome, numbers, used, rule.signs(leads))


def even_layers_beat_odd(evidence: Evidence, other: Evidence) -> Finding:
    places = halves(evidence)
    means_left, used = half_means(places)
    if not set(ALTERNATE) <= set(means_left):
        return missing("accuracy without the even layers, and without as many odd ones")
    numbers = f"mean left: {listed({word: means_left[word] for word in ALTERNATE}, TWO)}"
    theirs = [cells for cells in halves(other).values() if set(ALTERNATE) <= set(cells)]
    if theirs:
        model = other.scores[0].model
        name = BERT.name if short(model) in BERT.own else model
        values = {word: fmean(cells[word].value for cells in theirs) for word in ALTERNATE}
        numbers += f"; {name}: {listed(values, TWO)}"
    return judged(is_better(places, "even", "odd", covers_glue(places)), numbers, used)


def relative_loss(evidence: Evidence, loss: float, share: float) -> Finding:
    """Whether the mean relative loss of a model at a share of heads is about the one stated."""
    losses = near(evidence, share)
    if not losses:
        return missing(
            f"accuracy on GLUE, unpruned and with {share:g} % of the heads removed at random"
        )
    values = [one.percent for one in losses]
    width = noise(losses)
    if width is not None:  # in percent
        width *= 100 / fmean(one.full.value for one in losses)
    whole = all_of_glue(one.task for one in losses)
    outcome = rule.as_stated(values, loss, rule.ABOUT * loss, whole, width)
    numbers = f"stated {loss:g} %; found {evidence.final[0].model} {fmean(values):.2f} %"
    return judged(outcome, numbers, [one.cell for one in losses])


def _both(evidence: Evidence, other: Evidence) -> dict[tuple[str, float], tuple[Mean, Mean]]:
    """By (task, share): the scores of BERT and of mBERT."""

    def curve(scores: Iterable[Score]) -> dict[Any, Mean]:
        known = (s for s in scores if s.remove == "none" or s.strategy == "random")
        return means([s for s in known if s.share is not None], "task", "target", "share")

    ours, theirs = curve(evidence.final), curve(other.final)
    return {
        (place(task, target), share): (theirs[task, target, share], cell)
        for (task, target, share), cell in ours.items()
        if (task, target, share) in theirs
    }


def gap_stays_the_same(evidence: Evidence, other: Evidence) -> Finding:
    both = _both(evidence, other)
    # By (task, share): the scores of both models, and the unpruned ones.
    four = {
        (task, share): (*pair, *both[task, 0.0])
        for (task, share), pair in both.items()
        if share and (task, 0.0) in both
    }
    if len({share for _, share in four}) < 2:
        return missing(
            "accuracy of BERT and of mBERT on one task, unpruned and at two random shares of heads"
        )
    moved = {key: (a.value - b.value) - (c.value - d.value) for key, (a, b, c, d) in four.items()}
    (task, share), largest = max(moved.items(), key=lambda item: abs(item[1]))
    numbers = f"the gap moves most on {task} at {share:g} %: by {largest:+.2f} points"
    points = {(task, round(share)) for task, share in moved}
    whole = points == {(task, share) for task in GLUE for share in TENTHS}
    widths = [rule.by_repeats(cell.repeats for cell in cells) for cells in four.values()]
    leads = [rule.POINT - abs(value) for value in moved.values()]
    outcome = rule.every(leads, whole, ties=True, noise=widths)
    return judged(outcome, numbers, both.values())


def level_with_bert_on_two_tasks(evidence: Evidence, other: Evidence) -> Finding:
    both = _both(evidence, other)
    unpruned = {task: pair for (task, share), pair in both.items() if share == 0}
    if not unpruned:
        return missing("accuracy of unpruned BERT and mBERT on one of the four tasks")
    gaps, widths = rule.differences(unpruned.values())
    ahead = dict(zip(unpruned, gaps, strict=True))
    leads = [rule.POINT - abs(g) if task in SAME_AS_BERT else g for task, g in ahead.items()]
    outcome = rule.every(leads, all_of_glue(ahead), ties=True, noise=widths)
    return judged(outcome, f"BERT minus mBERT: {listed(ahead)}", unpruned.values())


def middle_matters_most(evidence: Evidence) -> Finding:
    used = []
    # By place: how far the middle is behind the ends, up to a third of the layers and beyond.
    lags: dict[TaskLanguage, dict[bool, list[float]]] = {}
    ends: dict[TaskLanguage, list[float]] = {}  # top minus bottom
    for where, *cells in middles(evidence):
        top, middle, bottom = cells
        share = middle.scores[0].share
        if share is not None:
            ends.setdefault(where, []).append(top.value - bottom.value)
            is_deep = share > THIRD + 0.1
            lags.setdefault(where, {}).setdefault(is_deep, []).append(lag(*cells))
            used += cells
    both = {
        where: (fmean(by_depth[False]), fmean(by_depth[True]))
        for where, by_depth in lags.items()
        if len(by_depth) == 2
    }
    if not both:
        return missing(
            "accuracy without top, middle and bottom layers, at most a third of them and more"
        )
    few, many = (fmean(values) for values in zip(*both.values(), strict=True))
    between = fmean(fmean(ends[where]) for where in both)
    conditions = (
        [deep for _, deep in both.values()],
        [deep - shallow for shallow, deep in both.values()],
        [deep - abs(between) for _, deep in both.values()],
    )
    outcome = rule.worst(rule.above(values, 0.0, covers_glue(both)) for values in conditions)
    numbers = (
        f"middle behind the ends by {few:.2f} points up to a third of the layers, {many:.2f} "
        f"beyond; top minus bottom {between:+.2f}"
    )
    sides = rule.signs(value for values in ends.values() for value in values)
    return judged(outcome, numbers, used, f"top against bottom: {sides}")


says = partial(stated, "mbert-prunability", task="glue")
MBERT_ON_GLUE = Scope(models=MBERT, tasks=ON_GLUE)
AGAINST_BERT = Scope(models=MBERT, tasks=ON_GLUE, others=BERT)
EITHER_ON_GLUE = Scope(models=EITHER, tasks=ON_GLUE)

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    Claim("M1", "points", middle_is_the_worst_half, MBERT_ON_GLUE,
          "The middle is the worst half of mBERT's layers to cut, on average over tasks."),
    Claim("M2", "points", alternate_layers_beat_blocks, MBERT_ON_GLUE,
          "Cutting layers in a row always costs more than cutting every second one.",
          follows_in_part=True),
    Claim("M3", "points", even_layers_beat_odd, AGAINST_BERT,
          "Cutting the even layers is better than cutting the odd ones on average: keeping the "
          "first layer helps."),
    Claim("M4", "%", partial(relative_loss, share=50), EITHER_ON_GLUE,
          "Removing half of the heads at random costs mBERT, and BERT alike, about {loss:g} % of "
          "mean GLUE accuracy.",
          numbers={"loss": says("mean_relative_drop_percent", percent="50")}, follows_in_part=True),
    Claim("M5", "%", partial(relative_loss, share=90), EITHER_ON_GLUE,
          "Removing 90 % of the heads at random costs mBERT, and BERT alike, about {loss:g} % of "
          "mean GLUE accuracy.",
          numbers={"loss": says("mean_relative_drop_percent", percent="90")}),
    Claim("M6", "points", gap_stays_the_same, AGAINST_BERT,
          "The gap of mBERT behind BERT is the same at every share of heads removed at random "
          "(within 1 point)."),
    Claim("M7", "points", level_with_bert_on_two_tasks, AGAINST_BERT,
          "Unpruned, mBERT is level with BERT on qqp and qnli (within 1 point) and behind it on "
          "mnli and sst2."),
    Claim("M8", "points", middle_matters_most, MBERT_ON_GLUE,
          "On GLUE neither end of mBERT matters more; the middle does, most clearly beyond a "
          "third of the layers."),
)
# fmt: on
