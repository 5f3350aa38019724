"""Findings about removals: which cost little, which cost much, and whether the choice matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from deadhead.report.labels import metric_words, unit_of
from deadhead.report.tables.significance import RATE
from deadhead.results import Compared, Study
from deadhead.results.cells import Cell
from deadhead.results.removals import removals_of
from deadhead.results.statistics import deviation, two_means
from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import sign

SMALL = 1.0  # points that count as little


def removal_sentences(study: Study, tests: list[str]) -> list[str]:
    """Sentences about the removals of a study; `tests` says which cells of a table differ."""
    removals = removals_of(study.cells)
    return [
        *_least_and_most(study, removals),
        *_best_and_worst(study, removals),
        *tests,
        *_choice_matters(removals),
        *_extremes(removals),
    ]


def _words(removal: Compared) -> str:
    """The removed heads, behind "without"."""
    strategy, amount = (removal.cell.axes.get(name) for name in ("strategy", "amount"))
    if strategy not in STRATEGIES:
        return f"the heads of {removal.cell.axes.get('remove')}"
    return STRATEGIES[str(strategy)].in_words(amount)


def _comparable(removals: Sequence[Compared]) -> list[Compared]:
    """The largest group that was scored on the same: means over other tasks are other numbers."""
    groups: dict[frozenset[object], list[Compared]] = {}
    for removal in removals:
        groups.setdefault(frozenset(removal.on), []).append(removal)
    return max(groups.values(), key=lambda group: (len(group), len(group[0].on)))


def _least_and_most(study: Study, removals: Sequence[Compared]) -> list[str]:
    """The largest removal that costs little (or the one that costs least), and the worst."""
    if not removals or removals[0].unpruned is None:
        return []
    comparable = _comparable(removals)
    best = _least(comparable)
    assert best.unpruned is not None  # as of the first
    one_metric = best.tasks == 1 or len(study.metrics) == 1
    text = (
        f"Without {_words(best)}, the mean "
        f"{metric_words(best.cell.metric) if one_metric else 'score'} is {best.pruned.value:.1f}, "
        f"against {best.unpruned.value:.1f} unpruned {_evidence(study, best)}"
    )
    gains = best.by_language
    if len(gains) > 1:
        low, high = _ends(gains)
        text += f"; languages change by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"
    worst = max(comparable, key=lambda removal: removal.loss)
    if worst is not best and worst.loss > max(SMALL, best.loss):
        return [f"{text}. Without {_words(worst)}, it is {worst.pruned.value:.1f}."]
    return [f"{text}."]


def _least(removals: Sequence[Compared]) -> Compared:
    """The largest removal that costs little, else the one that costs least."""
    little = [removal for removal in removals if removal.loss <= SMALL]
    if little:
        return max(little, key=lambda removal: (_size(removal.cell), -removal.loss))
    return min(removals, key=lambda removal: removal.loss)


def _size(cell: Cell) -> float:
    """The removed share of the weights: amounts are percents, heads or layers."""
    cost = {} if cell.summary is None else cell.summary.cost
    before, after = cost.get("parameters"), cost.get("parameters after")
    if isinstance(before, int) and isinstance(after, int) and before:
        return 1 - after / before
    return 0.0


def _ends(gains: Mapping[str, float]) -> tuple[str, str]:
    return min(gains, key=lambda name: gains[name]), max(gains, key=lambda name: gains[name])


def _evidence(study: Study, removal: Compared) -> str:
    """The evidence for a number: repetitions, languages, tasks, spread and test."""
    languages = len({language for _, language in removal.on})
    over = [f"{languages} languages"] if languages > 1 else []
    over += [f"{removal.tasks} tasks"] if removal.tasks > 1 else []
    text = f" over {' and '.join(over)}" if over else ""
    repeats = removal.pruned.repeats
    if len(repeats) == 1:
        return f"(one trial{text})"
    drawn = "draw" in removal.cell.axes and len(study.labels("draw")) > 1
    p = two_means(repeats, removal.seeds)
    test = "" if isnan(p) else f", t-test {p_words(p)}"
    count = f"{len(repeats)} {'masks' if drawn else 'repetitions'}"
    return f"({count}{text}, sd {deviation(repeats):.1f}{test})"


def p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _best_and_worst(study: Study, removals: Sequence[Compared]) -> list[str]:
    """The removals with the highest and the lowest mean, if there is no unpruned model."""
    if len(removals) < 2 or removals[0].unpruned is not None:
        return []
    comparable = _comparable(removals)
    up = sign(comparable[0].cell.metric)
    ends = ("highest", "lowest")[::up]
    best = max(comparable, key=lambda removal: up * removal.pruned.value)
    worst = min(comparable, key=lambda removal: up * removal.pruned.value)
    return [
        f"Of {len(comparable)} removals, without {_words(best)} the mean is {ends[0]}, "
        f"{best.pruned.value:.1f} {_evidence(study, best)}, and without {_words(worst)} {ends[1]}, "
        f"{worst.pruned.value:.1f}; the study has no unpruned model to compare with."
    ]


def _choice_matters(removals: Sequence[Compared]) -> list[str]:
    """Lowest-ranked heads against the same number of random ones."""
    by = {(r.cell.axes.get("strategy"), r.cell.axes.get("amount")): r for r in removals}
    amounts = [a for strategy, a in by if strategy == "lowest" and isinstance(a, int | float)]
    for amount in sorted(amounts, reverse=True):
        lowest = by["lowest", amount]
        other = by.get(("random_k", amount)) or by.get(("highest", amount))
        if other is None:
            continue
        ours, theirs = lowest.pruned.repeats, other.pruned.repeats
        difference, p = lowest.pruned.value - other.pruned.value, two_means(ours, theirs)
        if ours == theirs:
            return [f"Without {_words(lowest)} every score is as without {_words(other)}."]
        text = (
            f"The mean is {abs(difference):.1f}{unit_of([lowest.cell.metric])} "
            f"{'higher' if difference >= 0 else 'lower'} "
            f"without {_words(lowest)} than without {_words(other)}"
        )
        if sign(lowest.cell.metric) < 0:
            text += f", and lower is better ({metric_words(lowest.cell.metric)})"
        if isnan(p):
            return [f"{text}; with so few trials this may be luck."]
        verdict = "a difference" if p < RATE else "no difference is shown"
        return [f"{text} (t-test {p_words(p)}: {verdict})."]
    return []


def _extremes(removals: Sequence[Compared]) -> list[str]:
    """Languages and tasks that lose most and least by the removal that costs most."""
    sentences: list[str] = []
    for who, gains_of in (("Languages", "by_language"), ("Tasks", "by_task")):
        mixed = [removal for removal in removals if len(getattr(removal, gains_of)) > 1]
        worst = max(mixed, key=lambda removal: removal.loss, default=None)
        if worst is None or (who == "Languages" and worst is _least(_comparable(removals))):
            continue  # the first sentence has this range already
        what = f"without {_words(worst)}"
        sentences += extremes(getattr(worst, gains_of), what, who, unit_of([worst.cell.metric]))
    return sentences


def extremes(gains: Mapping[str, float], what: str, who: str, unit: str) -> list[str]:
    if len(gains) < 2:
        return []
    low, high = _ends(gains)
    return [
        f"{who}: {what} the change ranges from {gains[low]:+.1f}{unit} ({low}) to "
        f"{gains[high]:+.1f} ({high})."
    ]
