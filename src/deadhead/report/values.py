"""What a table or figure shows of a cell in a language: its score, or how much of the unpruned score is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cells import PRUNING, Cell, Study, as_dict
from .summed import Value


def scores_of(asked: Mapping[str, Any]) -> Value:
    """Scores in points, by the metric and on the split that are asked for, or the usual ones."""
    where = as_dict(asked.get("where"))
    its_metric, its_split = asked.get("metric") or where.get("metric"), asked.get("split") or where.get("split")

    def usual(cell: Cell, language: str, metric: str | None = None, split: str | None = None) -> float | None:
        return cell.scores.get(language) if metric is None and split is None else cell.score(language, metric, split)

    def score(cell: Cell, language: str, metric: str | None = None, split: str | None = None) -> float | None:
        return cell.score(language, metric or its_metric, split or its_split)

    return score if its_metric or its_split else usual


def drops_of(study: Study, asked: Mapping[str, Any]) -> Value:
    """Drops in percent of the score of the unpruned cell with the same other labels; below 0 is a gain."""
    score = scores_of(asked)
    beside: dict[int, Cell | None] = {}  # by the identity of a cell, its unpruned one
    full: dict[Any, Cell] = {}
    for cell in study.cells:
        if cell.unpruned and cell.state == "done":
            full.setdefault(_others(cell.axes), cell)

    def drop(cell: Cell, language: str, metric: str | None = None, split: str | None = None) -> float | None:
        if id(cell) not in beside:
            beside[id(cell)] = full.get(_others(cell.axes))
        other = beside[id(cell)]
        base = None if other is None else score(other, language, metric, split)
        value = score(cell, language, metric, split)
        return None if value is None or not base else 100 * (base - value) / base

    return drop


def _others(axes: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    """The labels that a pruned cell and its unpruned one share."""
    return frozenset((name, value) for name, value in axes.items() if name not in PRUNING)
