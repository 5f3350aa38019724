"""Scores gathered into units: the scores behind one cell of a table or one point of a curve.

The value of a cell in each of its languages is its score, what pruning loses, or what it gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

from deadhead.report.spec import Scored
from deadhead.results import Study
from deadhead.results.cells import LANGUAGE, PRUNING, Cell
from deadhead.tasks.metrics import sign

Row = Sequence[float | None]  # a value for each language of a cell
# From a cell, a metric and a split (None: the usual ones) to its values.
Value = Callable[[Cell, str | None, str | None], Row]
Part = tuple[str, str, float | None]  # a trial, a language and the score in it
BY_LANGUAGE = {*LANGUAGE, "setting", "parts"}  # axes in which languages of one cell may differ
Labels = frozenset[tuple[str, Any]]
CONTEXT = ("model", "task", "source", "train", "remove")  # labels that identify published numbers


@dataclass(kw_only=True)
class Unit:
    """Scores, each with its trial, its language and what it repeats, and the cells behind them.

    The lists have one entry for each score: very many scores fit into little memory this way.
    """

    scores: list[float] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    repeats: list[Any] = field(default_factory=list)  # scores with equal entries are averaged first
    cells: dict[str, Cell] = field(default_factory=dict)  # by trial
    lacking: int = 0  # done trials without this score
    # Where a score comes from that does not belong to a single trial.
    parts: dict[tuple[str, str], Callable[[], list[Part]]] = field(default_factory=dict)
    full: bool | None = None  # is this the unpruned model? None: its cells say

    def put(self, repeat: Any, trial: str, language: str, score: float) -> None:
        """Add a single score."""
        self.scores.append(score)
        self.trials.append(trial)
        self.languages.append(language)
        self.repeats.append(repeat)

    def add(
        self, cells: Sequence[Cell], language: str, repeats: Sequence[Any], scores: Row
    ) -> None:
        """Add the scores of some cells in a language; None where there is none."""
        trials = [cell.trial for cell in cells]
        self.cells.update(zip(trials, cells, strict=True))
        if None not in scores:
            self.scores += scores  # type: ignore[arg-type]
            self.trials += trials
            self.languages += [language] * len(trials)
            self.repeats += repeats
            return
        for cell, repeat, score in zip(cells, repeats, scores, strict=True):
            if score is not None:
                self.put(repeat, cell.trial, language, score)
            elif cell.state == "done":
                self.lacking += 1

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
    def is_simple(self) -> bool:
        """Is every score its own repetition? True for most units, and for the largest ones."""
        return len(set(self.repeats)) == len(self.repeats)

    def by_repeat(self) -> dict[Any, dict[tuple[str, str], float]]:
        """Scores by repetition, then by trial and language."""
        groups: dict[Any, dict[tuple[str, str], float]] = {}
        rows = zip(self.repeats, self.trials, self.languages, self.scores, strict=True)
        for repeat, trial, language, score in rows:
            groups.setdefault(repeat, {})[trial, language] = score
        return groups

    def numbers(self) -> list[float]:
        """One number for each repetition; trials that several repetitions share count once."""
        if self.is_simple and len(set(self.trials)) == len(self.trials):
            return self.scores
        return [
            fmean(scores.values()) if len(scores) > 1 else next(iter(scores.values()))
            for _, scores in self.repetitions()
        ]

    def repetitions(self) -> list[tuple[Any, dict[tuple[str, str], float]]]:
        """The scores behind each of `numbers`, in the same order, by trial and language."""
        distinct = {tuple(scores): (repeat, scores) for repeat, scores in self.by_repeat().items()}
        return list(distinct.values())

    def state(self) -> str:
        """One of done, partial, failed, missing, none."""
        states = {cell.state for cell in self.cells.values()}
        if self.scores:
            return "done" if states == {"done"} and not self.lacking else "partial"
        return "missing" if "left" in states else "failed" if "failed" in states else "none"

    def known(self) -> dict[str, Any]:
        """The labels that all its cells share, of those that identify published numbers."""
        labels = {name: {cell.axes.get(name) for cell in self.cells.values()} for name in CONTEXT}
        return {name: next(iter(values)) for name, values in labels.items() if len(values) == 1}


def group_cells(cells: Iterable[Cell], axes: Iterable[str]) -> Iterable[list[Cell]]:
    """Groups of cells with the same languages and the same labels on these axes.

    Where a cell belongs in a table is then worked out once for the whole group.
    """
    names = {*axes}
    simple = [name for name in names if name not in BY_LANGUAGE]
    by_setting, by_parts = "setting" in names, "parts" in names
    by_variant = bool({"split", "metric"} & names)
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        key: tuple[Any, ...] = (cell.languages, *map(cell.axes.get, simple))
        if by_setting:
            key += (cell.train,)
        if by_parts:
            key += tuple(cell.parts(language) for language in cell.languages)
        if by_variant:
            key += tuple(tuple(variant.items()) for variant in cell.variants(names))
        groups.setdefault(key, []).append(cell)
    return groups.values()


def repeats(cells: Sequence[Cell], language: str, mean_over: Sequence[str]) -> list[Any]:
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


def scores_of(spec: Scored) -> Value:
    """Scores in points, by the metric and on the split of the spec, or the usual ones."""
    its_metric = spec.metric or spec.where.get("metric")
    its_split = spec.split or spec.where.get("split")

    def scores(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        metric, split = metric or its_metric, split or its_split
        return cell.row(metric, split) if metric or split else cell.main_row

    return scores


def drops_of(study: Study, spec: Scored) -> Value:
    """Drops in percent of the unpruned score with the same other labels; below 0 is a gain.

    The unpruned score is the mean over seeds. Where lower scores are better, a rise is a drop.
    """
    scores, its_metric = scores_of(spec), spec.metric or spec.where.get("metric")
    unpruned: dict[Labels, list[Cell]] = {}
    for cell in study.cells:
        if cell.unpruned and cell.state == "done":
            unpruned.setdefault(cell.without(*PRUNING, "seed"), []).append(cell)

    @cache
    def base(labels: Labels, metric: str | None, split: str | None) -> dict[str, float]:
        # language -> trial -> score: several cells may belong to one trial
        by_language: dict[str, dict[str, float]] = {}
        for cell in unpruned.get(labels, ()):
            for language, score in zip(cell.languages, scores(cell, metric, split), strict=True):
                if score is not None:
                    by_language.setdefault(language, {})[cell.trial] = score
        return {language: fmean(trials.values()) for language, trials in by_language.items()}

    def drops(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        full = base(cell.without(*PRUNING, "seed"), metric, split)
        both = zip(map(full.get, cell.languages), scores(cell, metric, split), strict=True)
        factor = 100 * sign(metric or its_metric or cell.metric)
        return [
            None if score is None or not whole else factor * (whole - score) / whole
            for whole, score in both
        ]

    return drops


def gains_of(study: Study, spec: Scored) -> Value:
    """Points above the unpruned model of the same search, or below where lower is better."""
    scores, its_metric = scores_of(spec), spec.metric or spec.where.get("metric")
    full = {c.without(*PRUNING): c for c in study.cells if c.axes.get("arm") == "full"}

    @cache
    def base(search: Labels, metric: str | None, split: str | None) -> dict[str, float | None]:
        cell = full.get(search)
        rows = zip(cell.languages, scores(cell, metric, split), strict=True) if cell else ()
        return dict(rows)

    def gains(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        zero = base(cell.without(*PRUNING), metric, split)
        both = zip(map(zero.get, cell.languages), scores(cell, metric, split), strict=True)
        up = sign(metric or its_metric or cell.metric)
        return [
            None if score is None or start is None else up * (score - start)
            for start, score in both
        ]

    return gains
