"""What a score costs: parameters that are left and seconds of scoring, with the points that no other beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ..studies.status import seconds
from .cells import Study, as_dict, matches
from .charts import Row, Spec, trade
from .summed import alike
from .values import scores_of
from .words import STRATEGIES, joined

MILLION = 1e6
NUMBER = (int, float)
COSTS = ("parameters, millions", "seconds to score", "seconds of a trial")  # the last where scoring was not timed


def cost_figure(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """Each removal as a point: its mean score over trials and languages against what it costs."""
    scores_in, where = scores_of(asked), as_dict(asked.get("where"))
    found: dict[tuple[str, str, str], dict[str, tuple[float | None, ...]]] = {}
    done = [cell for cell in study.cells if cell.state == "done"]
    for cells in alike(done, ("task", "model", "remove", "strategy", *where)):
        first = cells[0]
        if not matches(first, next(iter(first.languages), ""), where):
            continue
        panel = joined(*(first.axes.get(name) for name in ("task", "model") if name in study.axes), by=" ")
        strategy = str(first.axes.get("strategy"))
        group = "nothing" if first.unpruned else STRATEGIES.get(strategy, strategy)
        trials = found.setdefault((panel, group, str(first.axes.get("remove", "none"))), {})
        for cell in cells:
            scores = [value for value in scores_in(cell, None, None) if value is not None]
            if scores and cell.summary is not None:
                trials[cell.trial] = (fmean(scores), *_costs(cell.summary.cost, seconds(cell.summary)))
    rows = [_row(key, list(trials.values())) for key, trials in found.items() if trials]
    timed = any(row["cost1"] is not None for row in rows)
    kept = [i for i in (0, 1 if timed else 2) if len({row.get(f"cost{i}") for row in rows} - {None}) > 1]
    if not kept or len(rows) < 2:
        return None
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    for panel in panels:
        for i in range(len(COSTS)):
            front([row for row in rows if row["panel"] == panel], f"cost{i}", f"front{i}")
    groups = list(dict.fromkeys(row["group"] for row in rows))
    shown = [row | {f"{name}{new}": row.get(f"{name}{old}") for new, old in enumerate(kept) for name in ("cost", "front")} for row in rows]
    names = [COSTS[i] for i in kept]
    return trade(shown, str(asked.get("title") or "Cost against score"), costs=names, groups=groups, panels=panels, y="mean score, points")


def _costs(cost: Mapping[str, Any], took: float) -> tuple[float | None, ...]:
    """Parameters, seconds of the last evaluation, which is what the smaller model may be quicker in, and of the trial."""
    left = cost.get("parameters after", cost.get("parameters"))
    scoring = [value for name, value in cost.items() if name.startswith("evaluate") and name.endswith(" s") and isinstance(value, NUMBER)]
    return (left / MILLION if isinstance(left, NUMBER) else None), (scoring[-1] if scoring else None), took or None


def _row(key: tuple[str, str, str], trials: Sequence[tuple[float | None, ...]]) -> Row:
    row: Row = {"panel": key[0], "group": key[1], "label": key[2], "n": len(trials), "y": round(fmean(one[0] or 0.0 for one in trials), 3)}
    for i in range(len(COSTS)):
        values = [value for one in trials if (value := one[1 + i]) is not None]
        row[f"cost{i}"] = round(fmean(values), 4) if values else None
    return row


def front(rows: list[Row], cost: str, name: str) -> None:
    """Mark the rows for which no other has both a lower cost and a higher score (or one of them, the other being equal)."""
    best: float | None = None
    for row in sorted(rows, key=lambda row: (row[cost] is None, row[cost] or 0.0, -row["y"])):
        row[name] = row[cost] is not None and (best is None or row["y"] > best)
        best = row["y"] if row[name] else best
