"""The figures of `shrink_curves_report.py`: points lost against share removed. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from page import write_figure
from shrink_curves_rows import (
    ALL,
    ENGLISH,
    EPOCH,
    HIGHEST,
    LOWEST,
    REPAIRED,
    RETRAINED,
    TASKS,
    TRANSFER,
    UNITS,
    Cell,
    Changes,
    Row,
    averaged,
    changes,
    interval,
    over_tasks,
    tasks_of,
)

from deadhead.report.figures.charts import DOT, Chart, categories, distinct, field, whole

SHOWN = ("auto", "fisher", "kwon", "gradient", "random")  # five lines are enough for a panel
ORDERS = {LOWEST: "lowest by gradient", "random": "random", HIGHEST: "highest by gradient"}
WITHOUT = {"cut": "cut", "refit": "cut and refitted", RETRAINED: "cut, then fine-tuned"}
FRONT = {  # for the first page: what `shrink` does, and both halves of it left out
    "shrink: chosen, refitted": ("auto", "refit"),
    "chosen, only cut": ("auto", "cut"),
    "random, refitted": ("random", "refit"),
    "random, only cut": ("random", "cut"),
}
ANSWER = {  # each way with the choice that has most seeds of it
    "only cut": ("fisher", "cut"),
    "refitted": ("fisher", "refit"),
    "refitted, one epoch": ("fisher", f"refit{EPOCH}"),
    "cut, then fine-tuned": (LOWEST, RETRAINED),
    "random, refitted": ("random", "refit"),
}
LOWEST_SHOWN = -10  # points, in the answer
POINTS: Chart = {"title": "points", "scale": {"zero": False}}  # the vertical axis of a chart
SOME_POINTS: Chart = {
    "title": "points",
    "scale": {"domain": [LOWEST_SHOWN, 8], "nice": False},
    "axis": {"values": [*range(LOWEST_SHOWN, 1, 2)]},
}
COLUMNS = {**TASKS, ALL: "mean of the tasks"}
SIZE = {"width": 190, "height": 130}
Point = dict[str, Any]


def draw(folder: Path, rows: Sequence[Row]) -> Iterator[Path]:
    """Write the figures as SVG; rows: with those of `auto`."""
    table = changes(rows)
    charts = {
        f"curves-{units}-{measure.lower()}": curve_chart(table, units, measure)
        for units in UNITS
        for measure in (ENGLISH, TRANSFER)
    }
    charts |= {f"ranking-{m.lower()}": ranking_chart(table, m) for m in (ENGLISH, TRANSFER)}
    charts["shrink"] = front_chart(table)
    charts["answer"] = answer_chart(table, rows, ENGLISH)
    charts["answer-transfer"] = answer_chart(table, rows, TRANSFER)
    charts["ranking"] = ranking_answer(table)
    for name, chart in charts.items():
        if chart is not None:
            file = folder / f"{name}.svg"
            write_figure(file, chart)
            yield file


def curve_chart(table: Changes, units: str, measure: str) -> Chart | None:
    """What each choice loses, by what is done about it."""
    points = [
        {**point, "task": task, "panel": treatment}
        for task in tasks_of(table, measure)
        for treatment in REPAIRED
        for choice in SHOWN
        for point in line(table, Cell(task, measure, units, choice, 0, treatment), choice)
    ]
    names = [choice for choice in SHOWN if any(point["line"] == choice for point in points)]
    title = f"{measure}: points against the whole model, without any training"
    return grid(points, names, f"{units} removed, %", title)


def front_chart(table: Changes) -> Chart | None:
    """One panel: the mean of the tasks in English."""
    points = [
        point
        for name, (choice, treatment) in FRONT.items()
        for point in line(table, Cell(ALL, ENGLISH, "heads", choice, 0, treatment), name)
    ]
    if not points:
        return None
    tasks = averaged(table, ENGLISH)
    title = "Heads removed from a fine-tuned encoder, nothing trained afterwards"
    names = ", ".join(TASKS[task] for task in tasks)
    note = (
        f"points lost, mean of {names}; {seeds_of(points)} seeds, bands: 95 % interval of the mean"
    )
    chart = {**lines([*FRONT], "heads removed, %", "heads"), "width": 460, "height": 210}
    whole_chart = whole({**chart, "data": {"values": points}}, [], title)
    return {**whole_chart, "title": {"text": title, "subtitle": note}}


def answer_chart(table: Changes, rows: Sequence[Row], measure: str) -> Chart | None:
    """How much can go, at what cost, in how much time: a panel for each kind of units."""
    names = {
        name: f"{name} ({seconds_of(rows, *way)} s)"
        for name, way in ANSWER.items()
        if any(cell.choice == way[0] and cell.treatment == way[1] for cell in table)
    }
    panels = {
        units: [
            point
            for name, title in names.items()
            for point in line(table, Cell(ALL, measure, units, *way_at(ANSWER[name])), title)
        ]
        for units in UNITS
    }
    columns = [
        {
            "title": {"text": units, "anchor": "middle"},
            "data": {"values": points},
            **lines([*names.values()], f"{units} removed, %", "way (median time)", SOME_POINTS),
            "width": 240,
            "height": 280,
        }
        for units, points in panels.items()
        if points
    ]
    if not columns:
        return None
    for column in columns:
        column["layer"].append(counts([*names.values()], "1.4 * (1 + datum.index)"))
    title = f"{measure.capitalize()}: points against the whole model, mean of the tasks"
    note = "units chosen by fisher, of the fine-tuned models by gradient; bands: 95 % interval"
    lowest = (
        f"numbers above: seeds of each point; lines that end below fall under {LOWEST_SHOWN} points"
    )
    return {
        **whole({"hconcat": columns}, [], title),
        "title": {"text": title, "subtitle": [note, lowest]},
    }


def way_at(way: tuple[str, str]) -> tuple[str, int, str]:
    """The choice and the treatment of a line, as `line` takes them."""
    return way[0], 0, way[1]


def seconds_of(rows: Sequence[Row], choice: str, treatment: str) -> str:
    """The median seconds of all models that were made in this way, and trained one by one."""
    key = choice, treatment
    own = [
        r["seconds"] for r in rows if (r["choice"], r["treatment"]) == key and "together" not in r
    ]
    return f"{median(own):.0f}" if median(own) >= 1 else "< 1"


def counts(names: Sequence[str], row: str) -> Chart:
    """The number of seeds of each point: a row for each name, at a height by its `index`."""
    index = f"indexof({[*names]}, datum.line)"
    return {
        "transform": [
            {"filter": "datum.x > 0"},
            {"calculate": index, "as": "index"},
            {"calculate": row, "as": "row"},
        ],
        "mark": {"type": "text", "fontSize": 9},
        "encoding": {
            "x": field("x", "Q"),
            "y": field("row", "Q"),
            "text": field("n", "Q"),
            "color": field("line", "N"),
        },
    }


def ranking_answer(table: Changes) -> Chart | None:
    """The mean of the tasks: cut, refitted and fine-tuned side by side, on one scale."""
    points = [
        {**point, "task": panel, "panel": measure}
        for measure in (ENGLISH, TRANSFER)
        for treatment, panel in WITHOUT.items()
        for choice, name in ORDERS.items()
        for point in line(table, Cell(ALL, measure, "heads", choice, 0, treatment), name)
    ]
    if not any(point["task"] == WITHOUT[RETRAINED] for point in points):
        return None
    ends = [min(point["low"] for point in points), max(point["high"] for point in points)]
    up = {"title": "points", "scale": {"domain": ends}}
    title = "The same heads removed: points against the whole model, mean of the tasks"
    return grid(points, [*ORDERS.values()], "heads removed, %", title, up)


def ranking_chart(table: Changes, measure: str) -> Chart | None:
    """The same heads removed: cut, refitted and fine-tuned beside each other."""
    points = [
        {**point, "task": task, "panel": panel}
        for task in [*tasks_of(table, measure), ALL]
        for treatment, panel in WITHOUT.items()
        for choice, name in ORDERS.items()
        for point in line(table, Cell(task, measure, "heads", choice, 0, treatment), name)
    ]
    if not any(point["panel"] == WITHOUT[RETRAINED] for point in points):
        return None
    title = f"{measure}: points against the whole model, the same heads removed"
    return grid(points, [*ORDERS.values()], "heads removed, %", title)


def grid(
    points: Sequence[Point], names: Sequence[str], x: str, title: str, up: Chart = POINTS
) -> Chart | None:
    """A column for each task, a row for each panel, a line for each name; None without points."""
    if not points:
        return None
    header = {"labelFontWeight": "bold", "labelPadding": 2}
    facet = {"row": field("panel", "N", sort=distinct(points, "panel"), header=header)}
    facet["row"]["title"] = None
    columns = [
        {
            "title": {"text": COLUMNS.get(task, task), "anchor": "middle"},
            "data": {"values": [point for point in points if point["task"] == task]},
            "facet": facet,
            "spec": lines(names, x, up=up),
        }
        for task in distinct(points, "task")
    ]
    note = f"each point: mean of {seeds_of(points)} seeds; bands: 95 % interval of the mean"
    text = {"text": title, "subtitle": f"{note}; 0 %: the whole model, by definition"}
    return {**whole({"hconcat": columns}, [], title), "title": text}


def seeds_of(points: Sequence[Point]) -> str:
    """How many seeds a point has, or from how many to how many."""
    seeds = [point["n"] for point in points if point["x"]]
    few, many = min(seeds), max(seeds)
    return f"{few}" if few == many else f"{few} to {many}"


def line(table: Changes, cell: Cell, name: str) -> list[Point]:
    """The points of a line, in pieces: it is broken where others were measured and it was not."""
    tasks = averaged(table, cell.measure) if cell.task == ALL else [cell.task]
    shares = {c.share for c in table if c._replace(share=0, task="") == cell._replace(task="")}
    every = sorted({c.share for c in table if c.units == cell.units})
    points: list[Point] = []
    last, piece = 0, 0
    for share in sorted(shares):
        known = interval(over_tasks(table, cell._replace(share=share), tasks).values())
        if known is not None:
            half = known.half if known.n > 2 else 0.0
            ends = {"low": known.mean - half, "high": known.mean + half}
            piece += any(last < other < share for other in every)
            point = {"line": name, "x": share, "y": known.mean, **ends, "n": known.n}
            points.append({**point, "piece": piece})
            last = share
    start = {"line": name, "x": 0, "y": 0.0, "low": 0.0, "high": 0.0, "n": 0, "piece": 0}
    return [start, *points] if points else []


def lines(names: Sequence[str], x: str, title: str = "chosen by", up: Chart = POINTS) -> Chart:
    """Lines with bands; up: the vertical axis. What lies outside of its domain is not drawn."""
    shares = {"axis": {"values": [0, 25, 50, 75, 90]}, "scale": {"domain": [0, 90]}}
    across = field("x", "Q", x, **shares)
    legend = {"symbolOpacity": 1, "symbolType": "circle", "symbolStrokeWidth": 0}
    scale = categories(names, ("random", "random, only cut"))
    colour = field("line", "N", title, scale=scale, legend=legend)
    clip = {"clip": True} if "domain" in up["scale"] else {}

    def layer(name: str, mark: Chart, **more: Any) -> Chart:
        vertical = {**field(name, "Q"), **up}
        encoding = {"x": across, "y": vertical, "color": colour, "detail": field("piece", "N")}
        return {"mark": {**mark, **clip}, "encoding": {**encoding, **more}}

    ends = {"y2": {"field": "high"}}
    layers = [
        layer("low", {"type": "area", "opacity": 0.16}, **ends),
        layer("low", {"type": "rule", "opacity": 0.3}, **ends),  # for points without neighbours
        layer("y", {"type": "line", "strokeWidth": 2}),
        layer("y", {**DOT, "size": 24}),
    ]
    return {"layer": layers, **SIZE}
