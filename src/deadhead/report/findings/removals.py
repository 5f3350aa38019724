"""Findings about removals: which cost little, which cost much, and whether the choice matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.report.labels import metric_words, unit_of
from deadhead.report.tables.significance import RATE
from deadhead.report.tables.units import group_cells
from deadhead.results import Study
from deadhead.results.cells import CHANCE, PRUNING, Cell
from deadhead.results.statistics import deviation, two_means
from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import sign

Scores = Mapping[str, float]  # by language
SMALL = 1.0  # points that count as little


@dataclass(frozen=True, kw_only=True)
class Removal:
    """One removal over all it was tried on, beside the unpruned model on the same."""

    cell: Cell  # one of its cells
    scores: tuple[float, ...]  # one for each repetition: the mean over languages and tasks
    on: frozenset[Any]  # what it was scored on: labels and languages
    full: float | None = None  # None if the study has no unpruned model
    fulls: tuple[float, ...] = ()  # one for each seed; empty if seeds were not scored on the same
    by_language: Mapping[str, float] = field(default_factory=dict)  # gain over unpruned
    by_task: Mapping[str, float] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return len({dict(labels).get("task") for labels, _ in self.on})

    @property
    def score(self) -> float:
        return fmean(self.scores)

    @property
    def loss(self) -> float:
        up = sign(self.cell.metric)
        return 0.0 if self.full is None else up * (self.full - self.score)

    @property
    def words(self) -> str:
        axes = self.cell.axes
        if axes.get("strategy") not in STRATEGIES:
            return f"the heads of {axes.get('remove')}"
        return STRATEGIES[str(axes.get("strategy"))].in_words(axes.get("amount"))


def removal_sentences(study: Study, tests: list[str]) -> list[str]:
    """Sentences about the removals of a study; `tests` says which cells of a table differ."""
    removals = removals_of(study)
    return [
        *_least_and_most(study, removals),
        *_best_and_worst(study, removals),
        *tests,
        *_choice_matters(removals),
        *_extremes(removals),
    ]


def removals_of(study: Study) -> list[Removal]:
    """Every removal of the recipe, beside the unpruned model, in the recipe's order."""
    unpruned: dict[Any, list[Scores]] = {}
    repetitions: dict[str, dict[Any, dict[Any, Scores]]] = {}  # label -> repetition -> labels
    first: dict[str, Cell] = {}
    done = [cell for cell in study.cells if cell.state == "done"]
    axes = set[str]().union(*(cell.axes for cell in done)).difference(CHANCE)
    for group in group_cells(done, axes):
        cells = [*{cell.trial: cell for cell in group}.values()]  # several draws may be one trial
        labels = cells[0].without(*PRUNING, "seed")
        if cells[0].unpruned:
            unpruned.setdefault(labels, []).extend(cell.scores for cell in cells)
            continue
        label = str(cells[0].axes.get("remove"))
        first.setdefault(label, cells[0])
        for cell in cells:
            repetition = cell.axes.get("seed"), cell.axes.get("draw")
            by_repetition = repetitions.setdefault(label, {})
            by_repetition.setdefault(repetition, {})[labels] = cell.scores
    removals = [
        _removal(first[label], list(by_repetition.values()), unpruned)
        for label, by_repetition in repetitions.items()
    ]
    return [removal for removal in removals if removal is not None]


def _removal(
    cell: Cell, scores: Sequence[Mapping[Any, Scores]], seeds: Mapping[Any, Sequence[Scores]]
) -> Removal | None:
    """Means over what every repetition and the unpruned model were scored on."""
    unpruned = {labels: _mean(of_seeds) for labels, of_seeds in seeds.items()}
    sides = [*scores, *([unpruned] if unpruned else [])]
    shared = [
        (labels, language)
        for labels in set(sides[0]).intersection(*sides)
        for language in set(sides[0][labels]).intersection(*(side[labels] for side in sides))
    ]
    if not shared:
        return None
    means = tuple(fmean([side[labels][name] for labels, name in shared]) for side in scores)
    if not unpruned:
        return Removal(cell=cell, scores=means, on=frozenset(shared))
    by_language: dict[str, list[float]] = {}
    by_task: dict[str, list[float]] = {}
    for labels, language in shared:
        gain = fmean([side[labels][language] for side in scores]) - unpruned[labels][language]
        by_language.setdefault(language, []).append(gain)
        by_task.setdefault(str(dict(labels).get("task")), []).append(gain)
    counts = {len(seeds[labels]) for labels, _ in shared}
    return Removal(
        cell=cell,
        scores=means,
        on=frozenset(shared),
        full=fmean(unpruned[labels][language] for labels, language in shared),
        fulls=tuple(
            fmean(seeds[labels][seed][language] for labels, language in shared)
            for seed in range(counts.pop() if len(counts) == 1 else 0)
        ),
        by_language={name: fmean(gains) for name, gains in by_language.items()},
        by_task={name: fmean(gains) for name, gains in by_task.items()},
    )


def _mean(seeds: Sequence[Scores]) -> Scores:
    """The mean over seeds in each language that all of them were scored in."""
    shared = set(seeds[0]).intersection(*seeds)
    return {language: fmean(scores[language] for scores in seeds) for language in shared}


def _comparable(removals: Sequence[Removal]) -> list[Removal]:
    """The largest group that was scored on the same: means over other tasks are other numbers."""
    groups: dict[frozenset[Any], list[Removal]] = {}
    for removal in removals:
        groups.setdefault(removal.on, []).append(removal)
    return max(groups.values(), key=lambda group: (len(group), len(group[0].on)))


def _least_and_most(study: Study, removals: Sequence[Removal]) -> list[str]:
    """The largest removal that costs little (or the one that costs least), and the worst."""
    if not removals or removals[0].full is None:
        return []
    comparable = _comparable(removals)
    best = _least(comparable)
    one_metric = best.tasks == 1 or len(study.metrics) == 1
    text = (
        f"Without {best.words}, the mean "
        f"{metric_words(best.cell.metric) if one_metric else 'score'} is {best.score:.1f}, "
        f"against {best.full:.1f} unpruned {_evidence(study, best)}"
    )
    gains = best.by_language
    if len(gains) > 1:
        low, high = _ends(gains)
        text += f"; languages change by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"
    worst = max(comparable, key=lambda removal: removal.loss)
    if worst is not best and worst.loss > max(SMALL, best.loss):
        return [f"{text}. Without {worst.words}, it is {worst.score:.1f}."]
    return [f"{text}."]


def _least(removals: Sequence[Removal]) -> Removal:
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


def _evidence(study: Study, removal: Removal) -> str:
    """The evidence for a number: repetitions, languages, tasks, spread and test."""
    languages = len({language for _, language in removal.on})
    over = [f"{languages} languages"] if languages > 1 else []
    over += [f"{removal.tasks} tasks"] if removal.tasks > 1 else []
    text = f" over {' and '.join(over)}" if over else ""
    if len(removal.scores) == 1:
        return f"(one trial{text})"
    drawn = "draw" in removal.cell.axes and len(study.labels("draw")) > 1
    p = two_means(removal.scores, removal.fulls)
    test = "" if isnan(p) else f", t-test {p_words(p)}"
    count = f"{len(removal.scores)} {'masks' if drawn else 'repetitions'}"
    return f"({count}{text}, sd {deviation(removal.scores):.1f}{test})"


def p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _best_and_worst(study: Study, removals: Sequence[Removal]) -> list[str]:
    """The removals with the highest and the lowest mean, if there is no unpruned model."""
    if len(removals) < 2 or removals[0].full is not None:
        return []
    comparable = _comparable(removals)
    up = sign(comparable[0].cell.metric)
    ends = ("highest", "lowest")[::up]
    best = max(comparable, key=lambda removal: up * removal.score)
    worst = min(comparable, key=lambda removal: up * removal.score)
    return [
        f"Of {len(comparable)} removals, without {best.words} the mean is {ends[0]}, "
        f"{best.score:.1f} {_evidence(study, best)}, and without {worst.words} {ends[1]}, "
        f"{worst.score:.1f}; the study has no unpruned model to compare with."
    ]


def _choice_matters(removals: Sequence[Removal]) -> list[str]:
    """Lowest-ranked heads against the same number of random ones."""
    by = {(r.cell.axes.get("strategy"), r.cell.axes.get("amount")): r for r in removals}
    amounts = [a for strategy, a in by if strategy == "lowest" and isinstance(a, int | float)]
    for amount in sorted(amounts, reverse=True):
        lowest = by["lowest", amount]
        other = by.get(("random_k", amount)) or by.get(("highest", amount))
        if other is None:
            continue
        difference, p = lowest.score - other.score, two_means(lowest.scores, other.scores)
        if lowest.scores == other.scores:
            return [f"Without {lowest.words} every score is as without {other.words}."]
        text = (
            f"The mean is {abs(difference):.1f}{unit_of([lowest.cell.metric])} "
            f"{'higher' if difference >= 0 else 'lower'} "
            f"without {lowest.words} than without {other.words}"
        )
        if sign(lowest.cell.metric) < 0:
            text += f", and lower is better ({metric_words(lowest.cell.metric)})"
        if isnan(p):
            return [f"{text}; with so few trials this may be luck."]
        verdict = "a difference" if p < RATE else "no difference is shown"
        return [f"{text} (t-test {p_words(p)}: {verdict})."]
    return []


def _extremes(removals: Sequence[Removal]) -> list[str]:
    """Languages and tasks that lose most and least by the removal that costs most."""
    sentences: list[str] = []
    for who, gains_of in (("Languages", "by_language"), ("Tasks", "by_task")):
        mixed = [removal for removal in removals if len(getattr(removal, gains_of)) > 1]
        worst = max(mixed, key=lambda removal: removal.loss, default=None)
        if worst is None or (who == "Languages" and worst is _least(_comparable(removals))):
            continue  # the first sentence has this range already
        what = f"without {worst.words}"
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
