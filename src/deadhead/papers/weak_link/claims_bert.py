"""Claims of Budhraja et al. 2020 on BERT: W6 to W16 and W18."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import factorial, isnan
from statistics import fmean

from deadhead.errors import DataError
from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import BERT, ON_GLUE, ON_QNLI_AND_SST2, Claim, Scope, measured_on
from deadhead.papers.claims.evidence import GLUE, Evidence, Mean, all_of_glue
from deadhead.papers.claims.from_papers import stated
from deadhead.papers.claims.losses import (
    covers_glue,
    falls_faster,
    halves,
    loss_list,
    near,
    noise,
    place,
    sets_of_layers,
    spread_of_draws,
)
from deadhead.papers.claims.verdict import FAILS, Finding, Outcome, judged, listed, missing
from deadhead.results import Measurement
from deadhead.results.statistics import by_distance, by_layer, evenness, holm

DEPTHS = {1, 3, 6, 8}  # layers removed at one end, as in table 5
MIDDLES = {2, 4, 6, 8}  # layers removed in the middle, or at both ends together
SETS = 18  # different sets of layers in tables 5 and 6


def mean_loss_at_half(evidence: Evidence, limit: float) -> Finding:
    losses = near(evidence, 50)
    if not losses:
        return missing("accuracy on GLUE, unpruned and with half of the heads removed at random")
    mean = fmean(loss.points for loss in losses)
    leads = [limit - loss.points for loss in losses]
    outcome = rule.above(leads, 0.0, all_of_glue(loss.task for loss in losses), noise(losses))
    numbers = f"mean loss {mean:.2f} points ({loss_list(losses)})"
    return judged(outcome, numbers, [loss.cell for loss in losses])


def neither_end_is_better(evidence: Evidence) -> Finding:
    sets = sets_of_layers(evidence)
    depths = sorted({n for word, n in sets if word == "top" and ("bottom", n) in sets})
    differences = {}
    for n in depths:
        top, bottom = sets["top", n], sets["bottom", n]
        leads = [top[where].value - bottom[where].value for where in top if where in bottom]
        if leads:
            differences[n] = fmean(leads)
    if len(differences) < 2:
        return missing("accuracy with the top and with the bottom layers removed, at two depths")
    each = listed(differences, "{}: {:+.2f}")
    ends = [sets[word, n] for word in ("top", "bottom") for n in differences]
    used = [cell for cells in ends for cell in cells.values()]
    whole = set(differences) == DEPTHS and covers_glue(sets["top", depths[0]])
    width = rule.over_repeats((cell.repeats for cell in used), sides=2)
    outcome = rule.level(list(differences.values()), rule.POINT, whole, width)
    numbers = f"top removed minus bottom removed, by layers: {each}"
    return judged(outcome, numbers, used, rule.signs(differences.values()))


Middles = dict[tuple[str, str, int], tuple[Mean, Mean]]


def ends_and_middle(evidence: Evidence) -> Middles:
    """By (task, target, layers): scores without both ends, and without as many in the middle."""
    sets = sets_of_layers(evidence)
    return {
        (*where, n): (cell, sets["middle", n][where])
        for (word, n), cells in sets.items()
        if word == "ends"
        for where, cell in cells.items()
        if where in sets.get(("middle", n), {})
    }


def _all_middles(middles: Middles, tasks: Iterable[str] = GLUE) -> bool:
    """Whether these are all the depths of table 5, on each of its tasks."""
    return {(task, n) for task, _, n in middles} == {(task, n) for task in tasks for n in MIDDLES}


def middle_is_worse_than_ends(evidence: Evidence, cases: float) -> Finding:
    middles = ends_and_middle(evidence)
    if len(middles) < 4:
        return missing(
            "accuracy without k layers of both ends and without 2k of the middle, in four cases"
        )
    differences = [ends.value - middle.value for ends, middle in middles.values()]
    worse, n = sum(value > 0 for value in differences), len(differences)
    mean = f"{fmean(differences):.2f} points on average"
    numbers = f"the middle is worse in {worse} of {n} cases, by {mean}"
    outcome = rule.at_least(worse, n, cases / 16, _all_middles(middles))
    return judged(outcome, numbers, middles.values(), rule.signs(differences))


def extra_loss_of_the_middle(evidence: Evidence, limit: float) -> Finding:
    middles = ends_and_middle(evidence)
    by_task: dict[str, list[tuple[Mean, Mean]]] = {}
    for (task, *_), pair in middles.items():
        by_task.setdefault(task, []).append(pair)
    if not by_task:
        return missing(
            "accuracy on qnli or sst2 without k layers of both ends and without 2k of the middle"
        )
    extra = {
        task: fmean(ends.value - middle.value for ends, middle in pairs)
        for task, pairs in by_task.items()
    }
    each = listed(extra, "{} {:.2f}")
    both = f"; both together {fmean(extra.values()):.2f}" if len(extra) > 1 else ""
    widths = [
        rule.by_repeats((cell.repeats for pair in pairs for cell in pair), 1 / len(pairs))
        for pairs in by_task.values()
    ]
    leads = [value - limit for value in extra.values()]
    outcome = rule.every(leads, _all_middles(middles, ("qnli", "sst2")), noise=widths)
    return judged(outcome, f"extra loss of the middle: {each}{both}", middles.values())


def better_than_blocks(evidence: Evidence, word: str) -> Finding:
    """Whether removing every second layer leaves more than removing top or bottom ones."""
    words = (word, "top", "bottom")
    ways = halves(evidence)
    places = {where: group for where, group in ways.items() if set(words) <= set(group)}
    if not places:
        return missing(
            f"accuracy without the {word}, the top and the bottom layers, the same number of each"
        )
    groups = places.values()
    others = [max((g["top"], g["bottom"]), key=lambda cell: cell.value) for g in groups]
    pairs = [(group[word], other) for group, other in zip(groups, others, strict=True)]
    leads, widths = rule.differences(pairs)
    used = [group[name] for group in groups for name in words]
    tasks = f"{sum(lead > 0 for lead in leads)} of {len(leads)} tasks"
    numbers = f"better than both on {tasks}, the smallest lead {min(leads):+.2f} points"
    outcome = rule.every(leads, covers_glue(places), noise=widths)
    return judged(outcome, numbers, used, rule.signs(leads))


def odd_layers_are_best(evidence: Evidence) -> Finding:
    words, ways = {"odd", "even", "top", "bottom"}, halves(evidence)
    places = {where: group for where, group in ways.items() if words <= set(group)}
    if not places:
        return missing(
            "accuracy without the odd, even, top and bottom layers, the same number of each"
        )
    best = {
        place(*where): max(group, key=lambda name: group[name].value)
        for where, group in places.items()
    }
    won = sum(name == "odd" for name in best.values())
    used = [cell for group in places.values() for cell in group.values()]
    each = ", ".join(f"{task} {name}" for task, name in best.items())
    outcome = rule.most(won, len(best), covers_glue(places))
    return judged(outcome, f"odd is best on {won} of {len(best)}: {each}", used)


def weight_runs(evidence: Evidence) -> list[Measurement]:
    """The trials in which the change of weights was measured after training."""
    return [m for m in evidence.measures if m.name == "weights" and m.stage == "after"]


def weights_move_evenly(evidence: Evidence, limit: float) -> Finding:
    gaps, used = [], []
    for run in weight_runs(evidence):
        with suppress(DataError):  # fewer than two layers left
            if run.remove.startswith("layers"):
                gaps.append(100 * evenness(run.values).gap)
                used.append(run)
    if not gaps:
        return missing(
            "how far weights moved (measure: weights) in trials that remove whole layers"
        )
    within = f"below {limit:g} % in {sum(gap < limit for gap in gaps)} of {len(gaps)} runs"
    numbers = f"largest difference between two layers {max(gaps):.1f} %; {within}"
    by_set: dict[tuple[str, str], list[float]] = {}
    for run, gap in zip(used, gaps, strict=True):
        by_set.setdefault((run.task, run.remove), []).append(gap)
    whole = len({remove for _, remove in by_set}) >= SETS
    leads = [limit - fmean(repeats) for repeats in by_set.values()]
    widths = [rule.by_repeats([repeats]) for repeats in by_set.values()]
    outcome = rule.every(leads, whole, noise=widths)
    return judged(outcome, numbers, used, f"runs: {len(gaps)}")


def weights_move_without_pattern(evidence: Evidence) -> Finding:
    runs = weight_runs(evidence)
    tests = [("the layer's height", by_layer(run.values)) for run in runs]
    tests += [
        ("the distance from a cut layer", by_distance(run.values, run.removed)) for run in runs
    ]
    tests = [(name, test) for name, test in tests if not isnan(test.p)]
    # With too few layers not even a perfect order would be clear.
    if not any(len(tests) * 2 / factorial(test.n) < rule.LEVEL for _, test in tests):
        return missing(
            "how far weights moved (measure: weights) in a model with layers enough to show a "
            f"pattern in {len(runs)} runs"
        )
    adjusted = holm([test.p for _, test in tests])
    clearest = min(range(len(tests)), key=lambda i: (adjusted[i], tests[i][1].p))
    name, test = tests[clearest]
    numbers = f"clearest pattern: rho {test.rho:+.2f} with {name} over {test.n} layers"
    by_holm = f"{adjusted[clearest]:.2g} by Holm for {len(tests)} tests in {len(runs)} runs"
    if adjusted[clearest] < rule.LEVEL:
        outcome = Outcome(FAILS, min(rule.WEAK - abs(test.rho), 0.0))
    else:
        # No clear pattern in any run is not yet none: over the runs the mean rho has to be near 0.
        rhos: dict[str, list[float]] = {}
        for pattern, one in tests:
            rhos.setdefault(pattern, []).append(one.rho)
        outcome = rule.worst(rule.as_stated(values, 0.0, rule.WEAK) for values in rhos.values())
    return judged(outcome, numbers, runs, f"p = {test.p:.2g}, {by_holm}")


says = partial(stated, "weak-link")
BERT_ON_GLUE = Scope(models=BERT, tasks=ON_GLUE)
ANY_ENCODER = replace(BERT_ON_GLUE, general=True)
ON_TWO = replace(BERT_ON_GLUE, tasks=ON_QNLI_AND_SST2)
WEIGHTS = replace(BERT_ON_GLUE, tasks=measured_on("mnli", "weights"))

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    Claim("W6", "points", mean_loss_at_half, BERT_ON_GLUE,
          "Removing half of BERT's heads at random costs less than {limit:g} point of mean "
          "accuracy.",
          numbers={"limit": says("mean_accuracy_drop_upper_bound")}),
    Claim("W7", "% per tenth", partial(falls_faster, bend=50), ANY_ENCODER,
          "BERT's accuracy falls faster beyond 50 % of the heads than up to there."),
    Claim("W8", "points", neither_end_is_better, ANY_ENCODER,
          "Neither end of BERT is the better one to cut: as many depths speak for the top as for "
          "the bottom."),
    Claim("W9", "cases", middle_is_worse_than_ends, BERT_ON_GLUE,
          "Cutting the middle 2k layers is worse than cutting k at both ends in {cases:g} of 16 "
          "cases (7 of 8).",
          numbers={"cases": says("cases_middle_worse")}),
    Claim("W10", "points", extra_loss_of_the_middle, ON_TWO,
          "On qnli and on sst2 cutting the middle costs over {limit:g} points more on average.",
          numbers={"limit": says("extra_mean_drop_middle_lower_bound")}, follows_in_part=True),
    Claim("W11", "points", partial(better_than_blocks, word="odd"), ANY_ENCODER,
          "Cutting the odd layers beats cutting as many at the top or at the bottom, on every "
          "task."),
    Claim("W12", "tasks", odd_layers_are_best, ANY_ENCODER,
          "Of all ways to cut half of the layers, the odd ones are best on most tasks.",
          follows_in_part=True),
    Claim("W13", "points", partial(better_than_blocks, word="even"), ANY_ENCODER,
          "Cutting the even layers, too, beats cutting as many at the top or at the bottom, on "
          "every task (implied).", follows_in_part=True),
    Claim("W15", "%", weights_move_evenly, WEIGHTS,
          "How far attention weights move in fine-tuning differs by less than {limit:g} % between "
          "any two layers.",
          numbers={"limit": says("max_layer_difference_of_weight_change_percent")}),
    Claim("W16", "rho", weights_move_without_pattern, replace(WEIGHTS, general=True),
          "How far attention weights move follows neither the layer's height nor its distance "
          "from a cut layer."),
    Claim("W18", "%", spread_of_draws, BERT_ON_GLUE,
          "Three draws of BERT's heads differ by {deviation:g} % of the mean (standard deviation).",
          numbers={"deviation": says("std_as_percent_of_mean", model="bert-base-uncased")}),
)
# fmt: on
