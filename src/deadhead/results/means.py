"""The scores that a cell of a table, a point of a curve, a finding or a claim shows as one number.

Two classes carry scores: a `Score` is one number with all its labels, for claims, and a `Mean` is
the scores that repeat one another, in plain lists, because tables gather hundreds of thousands. The
values of a cell in each of its languages are its scores, what pruning loses (`drop`), or what it
gains (`gain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from deadhead.tasks.metrics import sign

from .cells import CHANCE, LANGUAGE, PRUNING, Cell, Key, matches
from .model import Score

T = TypeVar("T")
Values = Sequence[float | None]  # one for each language of a cell
# From a cell, a metric and a split (empty or None: the usual ones) to its values.
ValuesOf = Callable[[Cell, str | None, str | None], Values]
Part = tuple[str, str, float | None]  # a trial, a language and the score in it
BY_LANGUAGE = {*LANGUAGE, "setting", "parts", "learnt"}  # axes that depend on the languages
OF_SEARCHES = ("arm", "source", "setting")  # axes that say what a search is for
Labels = frozenset[tuple[str, Any]]
Scored = Mapping[Labels, list[Cell]]  # cells by their labels without those of the pruning
CONTEXT = ("model", "task", "source", "train", "remove")  # labels that identify published numbers


class Number(NamedTuple):
    """A score of a trial in a language; scores of one repetition are averaged first."""

    repetition: Any
    trial: str
    language: str
    value: float


@dataclass(kw_only=True)
class Mean:
    """Scores, and the cells behind them."""

    numbers: list[Number] = field(default_factory=list)
    cells: dict[str, Cell] = field(default_factory=dict)  # by trial
    lacking: int = 0  # done trials without this score
    # Where a score comes from that does not belong to a single trial.
    parts: dict[tuple[str, str], Callable[[], list[Part]]] = field(default_factory=dict)
    full: bool | None = None  # is this the unpruned model? None: its cells say
    base: Mean | None = None  # the unpruned model, over what both were scored on
    scores: Sequence[Score] = ()  # with all their labels, where these matter

    def put(self, repetition: Any, trial: str, language: str, value: float) -> None:
        """Add a single score."""
        self.numbers.append(Number(repetition, trial, language, value))

    def add(self, cell: Cell, language: str, repetition: Any, value: float | None) -> None:
        """Add the score of a cell in a language; None where there is none (yet)."""
        self.cells[cell.trial] = cell
        if value is not None:
            self.put(repetition, cell.trial, language, value)
        elif cell.state == "done":
            self.lacking += 1

    def extend(self, other: Mean) -> None:
        """Add all scores of another mean."""
        self.numbers += other.numbers
        self.cells |= other.cells
        self.lacking += other.lacking

    @property
    def value(self) -> float:
        return fmean(self.repeats)

    def label(self, axis: str) -> Any:
        """The label of its first cell."""
        return next(iter(self.cells.values())).axes.get(axis)

    def labels(self, axis: str) -> set[Any]:
        """The labels of its cells."""
        return {cell.axes.get(axis) for cell in self.cells.values()}

    def by_label(self, axis: str) -> dict[Any, float]:
        """The mean for each label on an axis, over repetitions."""
        groups: dict[Any, dict[Any, list[float]]] = {}
        for repetition, trial, language, value in self.numbers:
            label = self.cells[trial].axis(axis, language)
            groups.setdefault(label, {}).setdefault(repetition, []).append(value)
        return {label: fmean(map(fmean, group.values())) for label, group in groups.items()}

    def gains(self, axis: str) -> dict[Any, float]:
        """How far it is above its base for each label on an axis."""
        base = self.base.by_label(axis) if self.base is not None else {}
        means = self.by_label(axis)
        return {label: means[label] - value for label, value in base.items()}

    @property
    def loss(self) -> float:
        """How much worse than its base it is; 0 without one."""
        if self.base is None:
            return 0.0
        return sign(self.metric) * (self.base.value - self.value)

    @property
    def repeats(self) -> list[float]:
        """One number for each repetition; trials that several repetitions share count once."""
        trials = {number.trial for number in self.numbers}
        if self.is_simple and (self.scores or len(trials) == len(self.numbers)):
            return [number.value for number in self.numbers]
        return [fmean(values.values()) for _, values in self.repetitions()]

    def repetitions(self) -> list[tuple[Any, dict[tuple[str, str], float]]]:
        """The scores behind each of `repeats`, in the same order, by trial and language."""
        distinct = {
            tuple(values): (label, values) for label, values in self.by_repetition().items()
        }
        return list(distinct.values())

    def by_repetition(self) -> dict[Any, dict[tuple[str, str], float]]:
        """Scores by repetition, then by trial and language."""
        groups: dict[Any, dict[tuple[str, str], float]] = {}
        for label, trial, language, value in self.numbers:
            groups.setdefault(label, {})[trial, language] = value
        return groups

    @property
    def is_simple(self) -> bool:
        """Is every score its own repetition? True for most means, and for the largest ones."""
        return len({number.repetition for number in self.numbers}) == len(self.numbers)

    @property
    def unpruned(self) -> bool:
        if self.full is not None:
            return self.full
        return all(cell.unpruned for cell in self.cells.values())

    @property
    def metric(self) -> str:
        """The main metric of its cells, of which tables have one kind in a cell."""
        return next((cell.metric for cell in self.cells.values()), "")

    @property
    def scored_on(self) -> frozenset[Any]:
        """The labels without those of the pruning, and the language, of all its scores."""
        return frozenset(
            (self.cells[number.trial].without(*PRUNING, "seed"), number.language)
            for number in self.numbers
        )

    @property
    def seeds(self) -> list[float]:
        """The means of the first scores of all repetitions, of the second ones, and so on.

        Of an unpruned model these are its seeds; none if seeds were not scored on the same.
        """
        groups = [list(scores.values()) for scores in self.by_repetition().values()]
        same = len({len(group) for group in groups}) == 1
        return list(map(fmean, zip(*groups, strict=True))) if same else []

    def state(self) -> str:
        """One of done, partial, failed, missing, none."""
        states = {cell.state for cell in self.cells.values()}
        if self.numbers:
            return "done" if states == {"done"} and not self.lacking else "partial"
        return "missing" if "left" in states else "failed" if "failed" in states else "none"

    def shared_labels(self) -> dict[str, Any]:
        """The labels that all its cells share, of those that identify published numbers."""
        labels = {name: self.labels(name) for name in CONTEXT}
        return {name: next(iter(values)) for name, values in labels.items() if len(values) == 1}


def means(scores: Iterable[Score], *axes: str) -> dict[Any, Mean]:
    """The means by what these axes say; by a single axis the key is its value."""
    return {key: _mean(group) for key, group in group_by(scores, *axes).items()}


def group_by(items: Iterable[T], *axes: str) -> dict[Any, list[T]]:
    """Items of any kind by what these axes say; by a single axis the key is its value."""
    groups: dict[Any, list[T]] = {}
    key = attrgetter(*axes)
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _mean(scores: Sequence[Score]) -> Mean:
    """Each score is a repetition of its own."""
    mean = Mean(scores=tuple(scores))
    for nth, score in enumerate(scores):
        mean.put(nth, score.trial, score.target, score.value)
    return mean


def means_of(
    cells: Iterable[Cell],
    axes: Sequence[str],
    where: Mapping[str, Any],
    mean_over: Sequence[str],
    values: ValuesOf,
    *,
    metric: str | None = None,
    split: str | None = None,
    searches: bool = False,
) -> dict[Key, Mean]:
    """The means of cells by their labels on the axes.

    searches: only the trials of searches, in the languages that these are for; each search is a
    repetition unless `mean_over` names axes.
    """
    by_key: dict[Key, Mean] = {}
    cells = (cell for cell in cells if "arm" in cell.axes) if searches else cells
    for group in group_cells(cells, (*axes, *where, *(OF_SEARCHES if searches else ()))):
        first = group[0]
        languages = first.is_for if searches else first.languages
        for variant in first.variants(axes):
            scored_by = variant.get("metric") or metric, variant.get("split") or split
            rows = [values(cell, *scored_by) for cell in group]
            for language, column in zip(first.languages, zip(*rows, strict=True), strict=True):
                if language in languages and matches(first, language, where):
                    repeats: list[Any] = (
                        [cell.without(*PRUNING) for cell in group]
                        if searches and not mean_over
                        else repetitions(group, language, mean_over)
                    )
                    mean = by_key.setdefault(first.key(axes, language, variant), Mean())
                    for cell, repetition, value in zip(group, repeats, column, strict=True):
                        mean.add(cell, language, repetition, value)
    return by_key


def group_cells(cells: Iterable[Cell], axes: Iterable[str]) -> Iterable[list[Cell]]:
    """Groups of cells with the same languages and the same labels on these axes.

    The position of a cell in a table is then worked out once for the group.
    """
    names = {*axes}
    simple = [name for name in names if name not in BY_LANGUAGE]
    by_variant, by_parts = bool({"split", "metric"} & names), "parts" in names
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        key: tuple[Any, ...] = (cell.languages, cell.train, *map(cell.axes.get, simple))
        if by_parts:
            key += tuple(map(cell.parts, cell.languages))
        if by_variant:
            key += (str(cell.variants(names)),)
        groups.setdefault(key, []).append(cell)
    return groups.values()


def repetitions(cells: Sequence[Cell], language: str, mean_over: Sequence[str]) -> list[Any]:
    """What the scores of cells in a language repeat; each its own if the mean is over trials.

    Seeds are the repetitions of what is not drawn, even if its cells name draws, and of cells that
    have no label on any of these axes.
    """
    if not mean_over:
        return [cell.trial for cell in cells]
    drawn = any(cell.summary is not None and "draw" in cell.summary.trial for cell in cells)
    if "draw" in mean_over and not drawn:
        mean_over = tuple(dict.fromkeys("seed" if axis == "draw" else axis for axis in mean_over))
    labels = (tuple([cell.axis(name, language) for name in mean_over]) for cell in cells)
    return [
        label if label.count(None) < len(label) else ("seed", cell.axes.get("seed"))
        for cell, label in zip(cells, labels, strict=True)
    ]


def values_by(cells: Iterable[Cell], kind: str) -> ValuesOf:
    """What is shown of a cell in each of its languages: a `score`, a `drop` or a `gain`.

    A drop is in percent of the unpruned score with the same other labels, the mean over seeds. A
    gain is in points above the unpruned model of the same search. Where lower scores are better, a
    rise is a drop.
    """

    def scores(cell: Cell, metric: str | None, split: str | None) -> Values:
        return cell.row(metric, split) if metric or split else cell.main_row

    if kind == "score":
        return scores
    apart = PRUNING if kind == "gain" else (*PRUNING, "seed")
    unpruned: dict[Labels, list[Cell]] = {}
    for cell in cells:
        if cell.axes.get("arm") == "full" if kind == "gain" else cell.unpruned:
            unpruned.setdefault(cell.without(*apart), []).append(cell)

    @cache
    def starts(labels: Labels, metric: str | None, split: str | None) -> dict[str, float]:
        # language -> trial -> score: several cells may belong to one trial
        by_language: dict[str, dict[str, float]] = {}
        for cell in unpruned.get(labels, ()):
            for language, score in zip(cell.languages, scores(cell, metric, split), strict=True):
                if score is not None:
                    by_language.setdefault(language, {})[cell.trial] = score
        return {language: fmean(trials.values()) for language, trials in by_language.items()}

    def changes(cell: Cell, metric: str | None, split: str | None) -> Values:
        start_in = starts(cell.without(*apart), metric, split).get
        up = sign(metric or cell.metric)
        both = zip(map(start_in, cell.languages), scores(cell, metric, split), strict=True)
        if kind == "gain":
            return [None if a is None or b is None else up * (b - a) for a, b in both]
        return [None if not a or b is None else 100 * up * (a - b) / a for a, b in both]

    return changes


def removals_of(cells: Iterable[Cell]) -> list[Mean]:
    """Every removal of the recipe, in its order, with the unpruned model as its base."""
    unpruned: dict[Labels, list[Cell]] = {}
    pruned: dict[str, dict[Any, dict[Labels, list[Cell]]]] = {}  # label -> repetition -> labels
    done = [cell for cell in cells if cell.state == "done"]
    axes = set[str]().union(*(cell.axes for cell in done)).difference(CHANCE)
    for group in group_cells(done, axes):
        for cell in {cell.trial: cell for cell in group}.values():  # draws may share a trial
            labels = cell.without(*PRUNING, "seed")
            if cell.unpruned:
                unpruned.setdefault(labels, []).append(cell)
            else:
                repetition = cell.axes.get("seed"), cell.axes.get("draw")
                by_repetition = pruned.setdefault(str(cell.axes.get("remove")), {})
                by_repetition.setdefault(repetition, {})[labels] = [cell]
    removals = (_removal(by_repetition, unpruned) for by_repetition in pruned.values())
    return [removal for removal in removals if removal.numbers]


def _removal(pruned: Mapping[Any, Scored], unpruned: Scored) -> Mean:
    """Means over what every repetition and the unpruned model were scored on.

    A seed and a draw are a repetition of the pruned model; the unpruned model is averaged first
    over the trials with the same labels.
    """
    sides = [*pruned.values(), *([unpruned] if unpruned else [])]
    shared = [labels for labels in sides[0] if all(labels in side for side in sides)]
    removal = Mean(base=Mean() if unpruned else None)
    for labels in shared:
        for language in sides[0][labels][0].scores:
            if all(language in cell.scores for side in sides for cell in side[labels]):
                for repetition, side in pruned.items():
                    for cell in side[labels]:
                        removal.add(cell, language, repetition, cell.scores[language])
                if removal.base is not None:
                    for cell in unpruned[labels]:
                        score = cell.scores[language]
                        removal.base.add(cell, language, (labels, language), score)
    return removal
