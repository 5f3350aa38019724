"""The value of a cell in each of its languages: its score, what pruning loses, or what it gains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import fmean
from typing import Any

from deadhead.report.spec import Scored
from deadhead.results import Study
from deadhead.results.cells import PRUNING, Cell

from .units import Row, Value

Labels = frozenset[tuple[str, Any]]


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

    The unpruned score is the mean over seeds.
    """
    scores = scores_of(spec)
    unpruned: dict[Labels, list[Cell]] = {}
    for cell in study.cells:
        if cell.unpruned and cell.state == "done":
            unpruned.setdefault(_other_labels(cell.axes, "seed"), []).append(cell)

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
        full = base(_other_labels(cell.axes, "seed"), metric, split)
        both = zip(map(full.get, cell.languages), scores(cell, metric, split), strict=True)
        return [
            None if score is None or not whole else 100 * (whole - score) / whole
            for whole, score in both
        ]

    return drops


def gains_of(study: Study, spec: Scored) -> Value:
    """Points above the unpruned model of the same search."""
    scores = scores_of(spec)
    full = {_other_labels(c.axes): c for c in study.cells if c.axes.get("arm") == "full"}

    @cache
    def base(search: Labels, metric: str | None, split: str | None) -> dict[str, float | None]:
        if search not in full:
            return {}
        cell = full[search]
        return dict(zip(cell.languages, scores(cell, metric, split), strict=True))

    def gains(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        zero = base(_other_labels(cell.axes), metric, split)
        both = zip(map(zero.get, cell.languages), scores(cell, metric, split), strict=True)
        return [None if score is None or start is None else score - start for start, score in both]

    return gains


def _other_labels(axes: Mapping[str, Any], *without: str) -> Labels:
    """The labels that a pruned cell and its unpruned one share."""
    excluded = (*PRUNING, *without)
    return frozenset((axis, label) for axis, label in axes.items() if axis not in excluded)
