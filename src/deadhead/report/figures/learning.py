"""Learning curves: the loss over the epochs of the last training of each trial. Its other numbers are on the trial's own sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadhead.report.labels import joined
from deadhead.report.tables.grid import Unit
from deadhead.results import Study
from deadhead.results.statistics import deviation
from deadhead.studies.store.records import Record

from .charts import Spec, curves
from .heads import chosen

MOST_LINES = 8


def epochs_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """Mean loss after each epoch, a line for each removal (for each way to remove, where those are many), a panel for each task."""
    found: dict[tuple[str, str, float], Unit] = {}
    line = "remove" if len(study.labels("remove")) <= MOST_LINES else "strategy"
    for cell, record in chosen(study, records, asked):
        last = [
            epoch for epoch in record.epochs if epoch.get("step") == record.epochs[-1].get("step")
        ]
        for nth, epoch in enumerate(last, 1):
            loss = epoch.get("loss")
            if isinstance(loss, int | float):
                key = (
                    joined(cell.axes.get("task")) if "task" in study.axes else "",
                    joined(cell.axes.get(line)) or "none",
                    float(nth),
                )
                found.setdefault(key, Unit()).put(cell.trial, cell.trial, "", float(loss))
    if len({at for _, _, at in found}) < 2:
        return None
    values = []
    for (panel, name, at), unit in sorted(found.items(), key=lambda item: item[0][2]):
        numbers = unit.numbers()
        mean = sum(numbers) / len(numbers)
        row: dict[str, Any] = {
            "x": at,
            "line": name,
            "panel": panel,
            "n": len(numbers),
            "y": round(mean, 4),
        }
        if len(numbers) > 1:
            row |= {
                "low": round(mean - deviation(numbers), 4),
                "high": round(mean + deviation(numbers), 4),
            }
        values.append(row)
    lines, panels = (list(dict.fromkeys(row[name] for row in values)) for name in ("line", "panel"))
    title = str(asked.get("title") or "Learning curves")
    return curves(
        values,
        title,
        x="epoch",
        y="training loss",
        numbers=True,
        order=(),
        lines=lines,
        panels=panels,
        line="removed",
        form=".3f",
    )
