"""What a score costs: the parameters that are left, with the points that no other beats. `deadhead bench` measures latency."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, score_words, strategy_words
from deadhead.report.tables.grid import alike
from deadhead.report.tables.values import scores_of
from deadhead.results import Study
from deadhead.results.cells import as_dict, matches

from .charts import Row, Spec, trade

MILLION = 1e6
COST = "parameters, millions"


def cost_figure(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """Each removal as a point: its mean score over trials and languages against the parameters it leaves."""
    scores_in, where = scores_of(asked), as_dict(asked.get("where"))
    found: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = {}
    done = [cell for cell in study.cells if cell.state == "done"]
    for cells in alike(done, ("task", "model", "remove", "strategy", *where)):
        first = cells[0]
        if not matches(first, next(iter(first.languages), ""), where):
            continue
        panel = joined(
            *(first.axes.get(name) for name in ("task", "model") if name in study.axes), by=" "
        )
        strategy = str(first.axes.get("strategy"))
        group = "nothing" if first.unpruned else strategy_words(strategy)
        trials = found.setdefault((panel, group, str(first.axes.get("remove", "none"))), {})
        for cell in cells:
            scores = [value for value in scores_in(cell, None, None) if value is not None]
            left = _parameters(cell.summary.cost) if cell.summary is not None else None
            if scores and left is not None:
                trials[cell.trial] = fmean(scores), left / MILLION
    rows = [_row(key, list(trials.values())) for key, trials in found.items() if trials]
    if len({row["cost"] for row in rows}) < 2:
        return None
    panels, groups = (list(dict.fromkeys(row[name] for row in rows)) for name in ("panel", "group"))
    for panel in panels:
        front([row for row in rows if row["panel"] == panel])
    title, y = (
        str(asked.get("title") or "Cost against score"),
        f"mean {score_words(study.metrics)}, points",
    )
    return trade(rows, title, cost=COST, groups=groups, panels=panels, y=y)


def _parameters(cost: Mapping[str, Any]) -> float | None:
    left = cost.get("parameters after", cost.get("parameters"))
    return left if isinstance(left, int | float) else None


def _row(key: tuple[str, str, str], trials: list[tuple[float, float]]) -> Row:
    score, left = (round(fmean(one[i] for one in trials), digits) for i, digits in ((0, 3), (1, 4)))
    return {
        "panel": key[0],
        "group": key[1],
        "label": key[2],
        "n": len(trials),
        "y": score,
        "cost": left,
    }


def front(rows: list[Row]) -> None:
    """Mark the rows for which no other has both a lower cost and a higher score (or one of them, the other being equal)."""
    best: float | None = None
    for row in sorted(rows, key=lambda row: (row["cost"], -row["y"])):
        row["front"] = best is None or row["y"] > best
        best = row["y"] if row["front"] else best
