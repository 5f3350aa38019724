"""What a table or figure shows of a cell in each of its languages: its score, how much of the unpruned score is lost, or what is gained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import fmean
from typing import Any

from deadhead.results import Study
from deadhead.results.cells import PRUNING, Cell, as_dict

from .grid import Row, Value


def scores_of(asked: Mapping[str, Any]) -> Value:
    """Scores in points, by the metric and on the split that are asked for, or the usual ones."""
    where = as_dict(asked.get("where"))
    its_metric, its_split = (
        asked.get("metric") or where.get("metric"),
        asked.get("split") or where.get("split"),
    )

    def scores(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        metric, split = metric or its_metric, split or its_split
        return cell.row(metric, split) if metric or split else cell.main_row

    return scores


def drops_of(study: Study, asked: Mapping[str, Any]) -> Value:
    """Drops in percent of the score of the unpruned model with the same other labels, the mean of its seeds; below 0 is a gain."""
    scores = scores_of(asked)
    full: dict[Any, list[Cell]] = {}
    for cell in study.cells:
        if cell.unpruned and cell.state == "done":
            full.setdefault(_others(cell.axes, "seed"), []).append(cell)

    @cache
    def base(
        others: frozenset[tuple[str, Any]], metric: str | None, split: str | None
    ) -> dict[str, float]:
        held: dict[
            str, dict[str, float]
        ] = {}  # language -> trial -> score: several cells may stand for one trial
        for cell in full.get(others, ()):
            for language, score in zip(cell.languages, scores(cell, metric, split), strict=True):
                if score is not None:
                    held.setdefault(language, {})[cell.trial] = score
        return {language: fmean(several.values()) for language, several in held.items()}

    def drops(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        whole = base(_others(cell.axes, "seed"), metric, split)
        both = zip(map(whole.get, cell.languages), scores(cell, metric, split), strict=True)
        return [
            None if score is None or not unpruned else 100 * (unpruned - score) / unpruned
            for unpruned, score in both
        ]

    return drops


def gains_of(study: Study, asked: Mapping[str, Any]) -> Value:
    """Points above the unpruned model of the same search."""
    scores = scores_of(asked)
    full = {_others(cell.axes): cell for cell in study.cells if cell.axes.get("arm") == "full"}

    @cache
    def base(
        search: frozenset[tuple[str, Any]], metric: str | None, split: str | None
    ) -> dict[str, float | None]:
        """The scores of the unpruned model, which all trials of its search ask for."""
        cell = full.get(search)
        return (
            {}
            if cell is None
            else dict(zip(cell.languages, scores(cell, metric, split), strict=True))
        )

    def gains(cell: Cell, metric: str | None = None, split: str | None = None) -> Row:
        whole = base(_others(cell.axes), metric, split)
        both = zip(map(whole.get, cell.languages), scores(cell, metric, split), strict=True)
        return [None if score is None or zero is None else score - zero for zero, score in both]

    return gains


def _others(axes: Mapping[str, Any], *less: str) -> frozenset[tuple[str, Any]]:
    """The labels that a pruned cell and its unpruned one share."""
    return frozenset((name, value) for name, value in axes.items() if name not in (*PRUNING, *less))
