"""What tables and figures show of searches, and how their numbers get into its means.

A search is a pair: from the languages it learns to one that it is scored in.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from deadhead.report.labels import capitalized, measured_words, unit_of
from deadhead.report.spec import Table
from deadhead.results import Mean, Search, Study
from deadhead.results.cells import LANGUAGE, PRUNING, Key, selects
from deadhead.results.means import Part
from deadhead.tasks.metrics import sign

from .cells import SEEDS, Entry, entry
from .grid import Keyed, Layout, build_table
from .notes import about_data
from .published import average, number

Statistic = Callable[[Search], float | None]
Filler = Callable[[Sequence[str], Statistic, bool], Keyed]
PublishedOf = Callable[[Mapping[str, Any], Mean | None], float | None]
UNTESTED = (
    "No cell is coloured: the best of k gains a little even if pruning does nothing, and this "
    "study has no unpruned seeds to test against."
)


def picked(arm: str, rule: str, what: str) -> Statistic:
    """The `score`, the `gain` or the `k` that a rule picks from an arm of a search."""

    def of(pair: Search) -> float | None:
        pick = pair.arms[arm].picks.get(rule) if arm in pair.arms else None
        return None if pick is None else float(getattr(pick, what))

    return of


def best(arm: str) -> Statistic:
    """The best score of an arm by the test set; `full` is the unpruned model."""
    if arm == "full":
        return lambda pair: pair.unpruned
    return picked(arm, "test", "score")


def selected(searches: Iterable[Search], where: Mapping[str, Any]) -> list[Search]:
    """The searches with these labels."""
    others = {axis: values for axis, values in where.items() if axis not in PRUNING}
    return [pair for pair in searches if selects(others, partial(pair_label, pair))]


def pair_label(pair: Search, axis: str) -> Any:
    """The label of a pair on an axis."""
    if axis in LANGUAGE:
        return pair.target
    group = dict(pair.group)
    return group[axis] if axis in group else getattr(pair, axis, None)


def filler(study: Study, layout: Layout, pairs: Sequence[Search]) -> Filler:
    """A function that puts a statistic of the pairs, and the trials it needs, into means.

    The keys of a trial or a pair are the same for every statistic, and are worked out once.
    """
    expected = study.means((*layout.axes, "arm"), layout.unpruned_where, searches=True)
    keys = [(pair, tuple(pair_label(pair, axis) for axis in layout.axes)) for pair in pairs]

    def fill(arms: Sequence[str], statistic: Statistic, full: bool) -> Keyed:
        means: Keyed = defaultdict(lambda: Mean(full=full))
        for (*labels, arm), mean in expected.items():
            if arm in arms:
                means[tuple(labels)].cells.update(mean.cells)
        for pair, key in keys:
            if (value := statistic(pair)) is not None:
                group = str(pair.group)
                means[key].put(pair.group, group, pair.target, value)
                means[key].parts[group, pair.target] = partial(_trials, pair, arms)
        return dict(means)

    return fill


def _trials(pair: Search, arms: Sequence[str]) -> list[Part]:
    """The scores that a number of a pair was picked from: those of its arms, unpruned first."""
    chosen = [pair.arms[name] for name in arms if name in pair.arms]
    first = (chosen or list(pair.arms.values()))[0]  # each arm knows the unpruned model
    parts: list[Part] = []
    if "full" in arms and 0 in first.trials:
        parts.append((first.trials[0], pair.target, first.full))
    for arm in chosen:
        ks = sorted(filter(None, arm.trials))
        trials = [arm.trials[k] for k in ks]
        parts += zip(trials, repeat(pair.target), map(arm.scores.get, ks), strict=False)
    return parts


def search_grid(
    study: Study,
    table: Table,
    layout: Layout,
    means: Keyed,
    theirs: PublishedOf,
    order: Mapping[str, list[Any]] | None = None,
) -> dict[str, Any]:
    """A table of searches; `theirs` finds published numbers."""

    def cell(key: Key) -> Entry:
        mean, labels = means.get(key), dict(zip(layout.axes, key, strict=True))
        is_gain = str(labels.get("statistic", "")).startswith("gain")
        lower_is_better = not is_gain and mean is not None and sign(mean.metric) < 0
        return entry(mean, theirs(labels, mean), lower_is_better=lower_is_better)

    note = _note(study, means)
    built = build_table(study, table, layout, means, cell, note, order=order, against=SEEDS)
    return {**built, "test": built["test"] or UNTESTED}


def _note(study: Study, means: Keyed) -> list[str]:
    sentences = [
        f"{capitalized(measured_words(study.metrics, ['test']))}"
        f"{unit_of(study.metrics, ', in ')}. Up to "
        f"{study.most_removed} heads are removed. k is the number that does best on the test set "
        "unless the column says otherwise, so it gains a little even if pruning does nothing: "
        "compare it with the gain of the same number of unpruned seeds."
    ]
    if any(key[-1:] == ("gain, stop rule",) for key in means):
        sentences.append(
            "Stop rule: heads are removed one by one until the score falls for the first time, "
            "and the best k up to there counts."
        )
    cells = {trial: cell for mean in means.values() for trial, cell in mean.cells.items()}
    return [*sentences, *about_data(study, cells.values())]


def printed_score(rows: Iterable[Mapping[str, str]], column: str = "value") -> float | None:
    """The mean of published scores; rows that hold only a difference are left out."""
    scores = (row for row in rows if column == "delta" or number(row, "delta") != number(row))
    return average(scores, column)
