"""Claims of Budhraja et al. 2020 on BERT: W6 to W16."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from math import factorial, isnan
from statistics import fmean

from deadhead.claims.cases import all_of_glue
from deadhead.claims.evidence import GLUE, Evidence, Mean
from deadhead.claims.from_papers import stated
from deadhead.claims.layer_sets import halves, sets_of_layers
from deadhead.claims.losses import at, final, lost, near, noise, rest, scatter, sharper, told
from deadhead.claims.rule import (
    POINT,
    WEAK,
    above,
    as_stated,
    at_least,
    by_repeats,
    every,
    level,
    most,
    over_repeats,
    worst,
)
from deadhead.claims.scope import about
from deadhead.claims.strength import LEVEL, signs, spread_words
from deadhead.claims.subjects import BERT, ON_GLUE, ON_QNLI_AND_SST2, measured_on
from deadhead.claims.verdict import FAILS, Claim, Finding, Shown, judged, missing
from deadhead.errors import DataError
from deadhead.results import Measure, Score
from deadhead.results.statistics import Correlation, by_distance, by_layer, evenness, holm

PAPER = "weak-link"
DEPTHS = {1, 3, 6, 8}  # layers cut at one end, as in table 5
MIDDLES = {2, 4, 6, 8}  # layers cut in the middle, or at both ends together
SETS = 18  # sets of layers of tables 5 and 6, those they share counted once


def w6(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = lost(facts, near(facts, 50))
    if not found:
        return missing("accuracy on GLUE, unpruned and with half of the heads drawn out")
    border, mean = (
        stated(PAPER, "mean_accuracy_drop_upper_bound"),
        fmean(points for points, _ in found.values()),
    )
    numbers = f"mean loss {mean:.2f} points ({told(found)})"
    cells = [cell for _, cell in found.values()]
    shown = above(
        [border - points for points, _ in found.values()],
        0.0,
        all_of_glue(task for task, *_ in found),
        noise(found),
    )
    return judged(shown, numbers, spread_words(cells, evidence.printed), rest(found))


def w8(evidence: Evidence) -> Finding:
    sets = sets_of_layers(final(evidence))
    depths = sorted({n for word, n in sets if word == "top" and ("bottom", n) in sets})
    differences = {}
    for n in depths:
        top, bottom = sets["top", n], sets["bottom", n]
        both = [place for place in top if place in bottom]
        if both:
            differences[n] = fmean(top[place].value - bottom[place].value for place in both)
    if len(differences) < 2:
        return missing("accuracy with the top and with the bottom layers gone, at two depths")
    numbers = "top gone minus bottom gone, by layers: " + ", ".join(
        f"{n}: {value:+.2f}" for n, value in differences.items()
    )
    used = [
        cell for word in ("top", "bottom") for n in differences for cell in sets[word, n].values()
    ]
    strength = f"{signs(differences.values())}; {spread_words(used, evidence.printed)}"
    whole = set(differences) == DEPTHS and all_of_glue(task for task, _ in sets["top", depths[0]])
    shown = level(
        list(differences.values()),
        POINT,
        whole,
        over_repeats(([f.value for f in cell.scores] for cell in used), sides=2),
    )
    return judged(shown, numbers, strength, [f for c in used for f in c.scores])


def ends_and_middle(facts: Iterable[Score]) -> dict[tuple[str, str, int], tuple[Mean, Mean]]:
    """By (task, target, layers): what is left with both ends gone, and with as many layers of the middle gone."""
    sets = sets_of_layers(facts)
    return {
        (*place, n): (cell, sets["middle", n][place])
        for (word, n), cells in sets.items()
        if word == "ends"
        for place, cell in cells.items()
        if place in sets.get(("middle", n), {})
    }


def w9(evidence: Evidence) -> Finding:
    found = ends_and_middle(final(evidence))
    if len(found) < 4:
        return missing(
            "accuracy with k layers of both ends and with 2k of the middle gone, in four cases"
        )
    differences = [ends.value - middle.value for ends, middle in found.values()]
    worse, share = sum(value > 0 for value in differences), stated(PAPER, "cases_middle_worse") / 16
    used = [cell for pair in found.values() for cell in pair]
    numbers = f"the middle is worse in {worse} of {len(differences)} cases, by {fmean(differences):.2f} points on average"
    strength = f"{signs(differences)}; {spread_words(used, evidence.printed)}"
    shown = at_least(worse, len(differences), share, _all_middles(found))
    return judged(shown, numbers, strength, [f for c in used for f in c.scores])


def _all_middles(found: Iterable[tuple[str, str, int]], tasks: Iterable[str] = GLUE) -> bool:
    """Whether these are all the depths of table 5, on each of its tasks."""
    return {(task, n) for task, _, n in found} == {(task, n) for task in tasks for n in MIDDLES}


def w10(evidence: Evidence) -> Finding:
    found = ends_and_middle(final(evidence))
    by_task = {
        task: [pair for (name, *_), pair in found.items() if name == task]
        for task in dict.fromkeys(key[0] for key in found)
    }
    extra = {
        task: fmean(ends.value - middle.value for ends, middle in pairs)
        for task, pairs in by_task.items()
    }
    if not extra:
        return missing(
            "accuracy on qnli or sst2 with k layers of both ends and with 2k of the middle gone"
        )
    border = stated(PAPER, "extra_mean_drop_middle_lower_bound")
    each = ", ".join(f"{task} {value:.2f}" for task, value in extra.items())
    used = [cell for pair in found.values() for cell in pair]
    both = f"; both together {fmean(extra.values()):.2f}" if len(extra) > 1 else ""
    numbers = f"extra loss of the middle: {each}{both}"
    draws = [
        by_repeats((cell.repeats for pair in pairs for cell in pair), 1 / len(pairs))
        for pairs in by_task.values()
    ]
    shown = every(
        [value - border for value in extra.values()],
        _all_middles(found, ("qnli", "sst2")),
        noise=draws,
    )
    return judged(
        shown, numbers, spread_words(used, evidence.printed), [f for c in used for f in c.scores]
    )


def better_than_blocks(evidence: Evidence, word: str) -> Finding:
    """Whether every second layer gone leaves more than as many top or bottom layers gone, on every task."""
    places = {
        place: group
        for place, group in halves(final(evidence)).items()
        if {word, "top", "bottom"} <= set(group)
    }
    found = list(places.values())
    if not found:
        return missing(
            f"accuracy with the {word}, the top and the bottom layers gone, as many of each"
        )
    leads = [group[word].value - max(group["top"].value, group["bottom"].value) for group in found]
    used = [group[name] for group in found for name in (word, "top", "bottom")]
    numbers = f"better than both on {sum(lead > 0 for lead in leads)} of {len(leads)} tasks, the smallest lead {min(leads):+.2f} points"
    strength = f"{signs(leads)}; {spread_words(used, evidence.printed)}"
    best = [max((group["top"], group["bottom"]), key=lambda cell: cell.value) for group in found]
    draws = [
        by_repeats([group[word].repeats, other.repeats])
        for group, other in zip(found, best, strict=True)
    ]
    shown = every(leads, all_of_glue(task for task, _ in places), noise=draws)
    return judged(shown, numbers, strength, [f for c in used for f in c.scores])


def w12(evidence: Evidence) -> Finding:
    found = {
        place: group
        for place, group in halves(final(evidence)).items()
        if {"odd", "even", "top", "bottom"} <= set(group)
    }
    if not found:
        return missing("accuracy with the odd, even, top and bottom layers gone, as many of each")
    best = {
        at(*place): max(group, key=lambda name: group[name].value) for place, group in found.items()
    }
    won = sum(name == "odd" for name in best.values())
    used = [cell for group in found.values() for cell in group.values()]
    numbers = f"odd is best on {won} of {len(best)}: " + ", ".join(
        f"{task} {name}" for task, name in best.items()
    )
    shown = most(won, len(best), all_of_glue(task for task, _ in found))
    return judged(
        shown, numbers, spread_words(used, evidence.printed), [f for c in used for f in c.scores]
    )


def weight_runs(evidence: Evidence) -> list[Measure]:
    """The trials in which the change of weights was measured after training."""
    return [m for m in evidence.measures if m.name == "weights" and m.stage == "after"]


def w15(evidence: Evidence) -> Finding:
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
    border = stated(PAPER, "max_layer_difference_of_weight_change_percent")
    within = sum(gap < border for gap in gaps)
    numbers = f"largest difference between two layers {max(gaps):.1f} %; below {border:g} % in {within} of {len(gaps)} runs"
    by_set: dict[tuple[str, str], list[float]] = {}
    for run, gap in zip(used, gaps, strict=True):
        by_set.setdefault((run.task, run.remove), []).append(gap)
    whole, draws = (
        len({remove for _, remove in by_set}) >= SETS,
        [by_repeats([several]) for several in by_set.values()],
    )
    shown = every([border - fmean(several) for several in by_set.values()], whole, noise=draws)
    return judged(shown, numbers, f"runs: {len(gaps)}", used)


def w16(evidence: Evidence) -> Finding:
    runs = weight_runs(evidence)
    tests = [("the layer's height", by_layer(run.values)) for run in runs]
    tests += [
        ("the distance from a cut layer", by_distance(run.values, run.removed)) for run in runs
    ]
    tests = [(name, test) for name, test in tests if not isnan(test.p)]
    if not any(
        len(tests) * 2 / factorial(test.n) < LEVEL for _, test in tests
    ):  # not even a perfect order would be clear
        return missing(
            f"how far weights moved (measure: weights) in a model with layers enough to show a pattern in {len(runs)} runs"
        )
    adjusted = holm([test.p for _, test in tests])
    at = min(range(len(tests)), key=lambda i: (adjusted[i], tests[i][1].p))
    name, test = tests[at]
    numbers = f"clearest pattern: rho {test.rho:+.2f} with {name} over {test.n} layers"
    strength = (
        f"p = {test.p:.2g}, {adjusted[at]:.2g} by Holm for {len(tests)} tests in {len(runs)} runs"
    )
    if adjusted[at] < LEVEL:
        return judged(Shown(FAILS, min(WEAK - abs(test.rho), 0.0)), numbers, strength, runs)
    return judged(worst(_no_pattern(tests)), numbers, strength, runs)


def _no_pattern(tests: Iterable[tuple[str, Correlation]]) -> list[Shown]:
    """No clear pattern in any run is not yet none: over the runs the mean rho has to be near 0."""
    rhos: dict[str, list[float]] = {}
    for name, test in tests:
        rhos.setdefault(name, []).append(test.rho)
    return [as_stated(several, 0.0, WEAK) for several in rhos.values()]


ON_WEIGHTS = measured_on("mnli", "weights")
SD = stated(PAPER, "std_as_percent_of_mean", model=BERT.own[0])
TASKS = {"W10": ON_QNLI_AND_SST2, "W15": ON_WEIGHTS, "W16": ON_WEIGHTS}
GENERAL = {
    "W7",
    "W8",
    "W11",
    "W12",
    "W13",
    "W16",
}  # on heads and layers of any encoder; the others have numbers of BERT
CLAIMS = tuple(
    Claim(name, PAPER, statement, about(judge, BERT, TASKS.get(name, ON_GLUE), general=name in GENERAL), unit)
    for name, unit, statement, judge in (
        ("W6", "points", "Drawing out half of BERT's heads costs less than 1 point of mean accuracy.", w6),
        ("W7", "% per tenth", "BERT's accuracy falls faster beyond 50 % of the heads than up to there.", lambda e: sharper(e, 50)),
        ("W8", "points", "Neither end of BERT is the better one to cut: as many depths speak for the top as for the bottom.", w8),
        ("W9", "cases", "Cutting the middle 2k layers is worse than cutting k at both ends in 14 of 16 cases (7 of 8).", w9),
        ("W10", "points", "On qnli and on sst2 cutting the middle costs over 2 points more on average.", w10),
        ("W11", "points", "Cutting the odd layers beats cutting as many at the top or at the bottom, on every task.", lambda e: better_than_blocks(e, "odd")),
        ("W12", "tasks", "Of all ways to cut half of the layers, the odd ones are best on most tasks.", w12),
        ("W13", "points", "Cutting the even layers, too, beats cutting as many at the top or at the bottom, on every task (implied).", lambda e: better_than_blocks(e, "even")),
        ("W15", "%", "How far attention weights move in fine-tuning differs by less than 10 % between any two layers.", w15),
        ("W16", "rho", "How far attention weights move follows neither the layer's height nor its distance from a cut layer.", w16),
        ("W18", "%", f"Three draws of BERT's heads differ by {SD:g} % of the mean (standard deviation).", lambda e: scatter(e, SD)),
    )
)  # fmt: skip
