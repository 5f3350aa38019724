"""The figures of `shrink_curves_report.py`: points lost against share removed. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shrink_curves_report import (
    COMPENSATED,
    ENGLISH,
    HIGHEST,
    LOWEST,
    RETRAINED,
    TASKS,
    TRANSFER,
    Cell,
    Changes,
    Row,
    changes,
    interval,
    over_tasks,
    tasks_of,
)

from deadhead.report.figures.charts import DOT, Chart, categories, field, whole

SHOWN = ("auto", "fisher", "kwon", "gradient", "random")  # five lines are enough for a panel
ORDERS = {LOWEST: "lowest by gradient", "random": "random", HIGHEST: "highest by gradient"}
WITHOUT = ("cut", "refit", RETRAINED)
TITLES = {"cut": "cut", "refit": "cut and refitted", RETRAINED: "cut, then fine-tuned"}
SIZE = {"width": 190, "height": 130}


def draw(folder: Path, rows: Sequence[Row]) -> Iterator[Path]:
    """Write the figures as SVG; rows: with those of `auto`."""
    from deadhead.report.export import PRINT, _drawers

    table = changes(rows)
    charts = {
        f"curves-{units}-{measure.lower()}": curve_chart(table, units, measure)
        for units in ("heads", "neurons", "both")
        for measure in (ENGLISH, TRANSFER)
    }
    charts |= {f"ranking-{m.lower()}": ranking_chart(table, m) for m in (ENGLISH, TRANSFER)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in charts.items():
        if chart is not None:
            file = folder / f"{name}.svg"
            file.write_text(_drawers()["svg"]({**chart, "config": PRINT}), encoding="utf-8")
            yield file


def curve_chart(table: Changes, units: str, measure: str) -> Chart | None:
    """A column for each task, a row for each compensation, a line for each choice."""
    tasks = tasks_of(table, measure)
    treatments = [t for t in COMPENSATED if _has(table, units, t)]
    points = [
        point
        for task in tasks
        for treatment in treatments
        for choice in SHOWN
        for point in line(table, Cell(task, measure, units, choice, 0, treatment), choice)
    ]
    if not points:
        return None
    names = [choice for choice in SHOWN if any(p["line"] == choice for p in points)]
    columns = [
        {
            "title": TASKS[task],
            "data": {"values": [p for p in points if p["task"] == task]},
            "facet": {"row": field("panel", "N", None, sort=treatments)},
            "spec": lines(names, f"{units} removed, %", "points"),
        }
        for task in tasks
    ]
    title = f"{measure}: points lost without training{_caption(points)}"
    return whole({"hconcat": columns}, [], title)


def ranking_chart(table: Changes, measure: str) -> Chart | None:
    """The same heads removed: cut, refitted and fine-tuned side by side, a row for each task."""
    tasks = [*tasks_of(table, measure), "all"]
    points = []
    for task in tasks:
        for treatment in WITHOUT:
            for choice, name in ORDERS.items():
                cell = Cell(task, measure, "heads", choice, 0, treatment)
                points += [{**p, "panel": TITLES[treatment]} for p in line(table, cell, name)]
    if not any(point["panel"] == TITLES[RETRAINED] for point in points):
        return None
    rows = [
        {
            "title": TASKS.get(task, "mean of the tasks"),
            "data": {"values": [p for p in points if p["task"] == task]},
            "facet": {"column": field("panel", "N", None, sort=[*TITLES.values()])},
            "spec": lines([*ORDERS.values()], "heads removed, %", "points"),
        }
        for task in tasks
        if any(p["task"] == task for p in points)
    ]
    title = f"{measure}: does it matter which heads go?{_caption(points)}"
    return whole({"vconcat": rows}, [], title)


def line(table: Changes, cell: Cell, name: str) -> list[dict[str, Any]]:
    """The points of a line, at all shares that were measured; the task `all` is the mean."""
    tasks = tasks_of(table, cell.measure) if cell.task == "all" else [cell.task]
    shares = sorted(
        {c.share for c in table if c._replace(share=0, task="") == cell._replace(task="")}
    )
    points = []
    for share in shares:
        known = interval(over_tasks(table, cell._replace(share=share), tasks).values())
        if known is not None:
            half = known.half if known.n > 1 else 0.0
            point = {"x": share, "y": known.mean, "low": known.mean - half}
            point |= {"high": known.mean + half, "n": known.n * len(tasks)}
            points.append({**point, "line": name, "panel": cell.treatment, "task": cell.task})
    return points


def lines(names: Sequence[str], x: str, y: str) -> Chart:
    """Lines with bands."""
    across = field("x", "Q", x, axis={"values": [10, 25, 50, 75, 90]})
    colour = field("line", "N", "chosen by", scale=categories(names, ("random",)))

    def layer(name: str, mark: Chart, **more: Any) -> Chart:
        up = field(name, "Q", y, scale={"zero": False})
        return {"mark": mark, "encoding": {"x": across, "y": up, "color": colour, **more}}

    band = layer("low", {"type": "area", "opacity": 0.16}, y2={"field": "high"})
    layers = [band, layer("y", {"type": "line", "strokeWidth": 2}), layer("y", {**DOT, "size": 24})]
    return {"layer": layers, **SIZE}


def _has(table: Changes, units: str, treatment: str) -> bool:
    return any(cell.units == units and cell.treatment == treatment for cell in table)


def _caption(points: Sequence[dict[str, Any]]) -> str:
    """How many models are behind the points; those of a mean are counted with their task."""
    own = [point["n"] for point in points if point["task"] != "all"]
    few, many = min(own), max(own)
    seeds = f"{few}" if few == many else f"{few} to {many}"
    return f" ({sum(own):,} models, {seeds} seeds a point, bands: 95 % interval of the mean)"
