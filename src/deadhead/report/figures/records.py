"""The records that a figure shows, and the values of heads in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deadhead.report.head_values import (
    ENTROPY_CHANGE,
    RANKING,
    REMOVED,
    map_measures,
    measured_maps,
    ranking_name,
)
from deadhead.report.labels import STAGES, joined
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, matches
from deadhead.results.from_record import by_stage, ranking_of
from deadhead.studies.store.records import Record

LEGENDS = {
    RANKING: "score",
    REMOVED: "share of trials",
    ENTROPY_CHANGE: "|change| of entropy, nats",
}


def shows() -> dict[str, str]:
    """What a figure of heads can show -> the title of its scale."""
    return LEGENDS | {name: measure.legend for name, measure in map_measures().items()}


def chosen(study: Study, where: Mapping[str, Any] | None = None) -> Iterator[tuple[Cell, Record]]:
    """The done records with these labels, each with its cell."""
    cells = study.by_trial
    for trial, record in study.records.items():
        cell = cells.get(trial)
        if cell is None or record.state != "done":
            continue
        if matches(cell, next(iter(cell.languages), ""), where or {}):
            yield cell, record


def panel_label(cell: Cell, axis: str) -> str:
    """The label of a cell on an axis; a number comes with the name of the axis."""
    label = cell.axes.get(axis) if axis else ""
    return f"{axis} {label}" if isinstance(label, int | float) else joined(label)


def head_values(
    study: Study, cell: Cell, record: Record, show: str, axis: str
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The values of a record's heads, each map of them with the panel it belongs to."""
    panel = panel_label(cell, axis)
    if show == RANKING:
        if (ranking := ranking_of(record)) is not None:
            yield panel or ranking_name(study, record, ranking), ranking.scores
    elif show == REMOVED:
        yield panel, dict.fromkeys(record.removed, 1.0)
    elif show == ENTROPY_CHANGE:
        if change := entropy_change(record):
            yield panel, change
    else:
        is_change = map_measures()[show].is_change
        for stage, maps in measured_maps(record).items():
            if maps.get(show) and (not is_change or stage == "after"):
                yield joined(panel, "" if is_change else STAGES[stage]), maps[show]


def entropy_change(record: Record) -> dict[str, float]:
    """How far the entropy of each head that is left changes in epoch 1.

    Over the whole training if nothing was measured after epoch 1.
    """
    stages = {stage: as_dict(m.get("entropy")) for stage, m in by_stage(record).items()}
    before, later = stages.get("before", {}), stages.get("first") or stages.get("after") or {}
    return {
        head: abs(later[head] - value)
        for head, value in before.items()
        if later.get(head) is not None
    }
