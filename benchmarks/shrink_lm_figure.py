"""The figure of `shrink_lm_curves.py`: perplexity against the share removed. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from shrink_curves_figure import Point, counts, lines, seconds_of
from shrink_curves_rows import EPOCH, UNITS, WHOLE, Row, key_of

from deadhead.report.figures.charts import Chart, whole

WAYS = {
    "only cut": ("fisher", "cut"),
    "refitted": ("fisher", "refit"),
    "refitted, one epoch": ("fisher", f"refit{EPOCH}"),
    "random, refitted": ("random", "refit"),
    "random, refitted, one epoch": ("random", f"refit{EPOCH}"),
}
HIGHEST_SHOWN = 1000
PERPLEXITY: Chart = {  # the vertical axis, with room for the numbers of draws below the curves
    "title": "perplexity",
    "scale": {"type": "log", "domain": [6, HIGHEST_SHOWN], "nice": False},
    "axis": {"values": [15, 20, 25, 40, 60, 100, 200, 400, HIGHEST_SHOWN]},
}


def answer_chart(rows: Sequence[Row]) -> Chart:
    """How much can go, at what cost, in how much time: a panel for each kind of units."""
    known = {(row["choice"], row["treatment"]) for row in rows}
    names = {
        f"{name} ({seconds_of(rows, *way)} s)": way for name, way in WAYS.items() if way in known
    }
    columns = []
    for units in UNITS:
        points = [
            point for name, way in names.items() for point in line(rows, units, *way, name=name)
        ]
        if points:
            curves = lines([*names], f"{units} removed, %", "way (median time)", PERPLEXITY)
            curves["layer"].append(counts([*names], "7 * pow(1.17, datum.index)"))
            title = {"text": units, "anchor": "middle"}
            values = {"values": points}
            columns.append({**curves, "title": title, "data": values, "width": 240, "height": 300})
    title = "A language model: perplexity against the share removed"
    notes = [
        "units chosen by fisher; bands: the range of the draws; 0 %: the whole model, with and "
        "without the epoch",
        f"numbers below: draws of each point; lines that end above are over {HIGHEST_SHOWN:,}",
    ]
    text = {"text": title, "subtitle": notes}
    return {**whole({"hconcat": columns}, [], title), "title": text}


def line(rows: Sequence[Row], units: str, choice: str, treatment: str, name: str) -> list[Point]:
    """The points of a line, from the whole model on; none without a smaller model."""
    control = f"{WHOLE}{EPOCH}" if treatment.endswith(EPOCH) else WHOLE
    values: dict[int, list[float]] = {}
    for row in rows:
        key = key_of(row)
        if key in (("heads", "none", 0, control), (units, choice, key[2], treatment)):
            values.setdefault(row["share"], []).append(row["perplexity"])
    points = [
        {"x": share, "y": fmean(own), "low": min(own), "high": max(own), "n": len(own)}
        for share, own in sorted(values.items())
    ]
    return [{**point, "line": name, "piece": 0} for point in points] if any(values) else []
