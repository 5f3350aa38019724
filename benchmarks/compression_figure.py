"""The figure of `compression.py`: speed beside its bound, and score against speed. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compression_report import LENGTHS, WHOLE, Document, bound, is_main, label
from page import write_figure

# Where the name of a point is: random heads are a curve that falls to the right, and sets of
# layers are around it.
SIDES = {
    "above": {"align": "center", "dy": -12},
    "left": {"align": "right", "dx": -8},
    "right": {"align": "left", "dx": 8},
}
TITLES = {"own": "score in the source language", "others": "mean score in the other languages"}
POINT = {"type": "point", "filled": True, "size": 60, "opacity": 1}


def draw(
    file: Path, documents: Sequence[Document], scores: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the figure as SVG or PNG, by the name of the file."""
    from deadhead.report.figures.charts import whole

    times = [
        {
            "label": label(row["pruning"]),
            "where": row["where"],
            "speed": row["speed"],
            "bound": bound(document, row["pruning"], LENGTHS[-1]),
        }
        for document in documents
        for row in document["times"]
        if is_main(row) and row["pruning"] != WHOLE and "int8" not in row["where"]
    ]
    order = [label(name) for name in documents[0]["sizes"] if name != WHOLE]
    charts = [_speed_chart(times, order), *_score_charts(times, scores)]
    write_figure(file, whole({"hconcat": charts}, [], documents[0]["model"]))


def _speed_chart(times: list[dict[str, Any]], order: list[str]) -> dict[str, Any]:
    """The speed of each pruning in each runtime, with its bound as a bar."""
    from deadhead.report.figures.charts import MIDDLE, categories, field

    runtimes = list(dict.fromkeys(row["where"] for row in times))
    y = {"type": "quantitative", "title": "times as fast", "scale": {"zero": False}}
    color = field("where", "N", "measured (bars: bound)", scale=categories(runtimes))
    bar = {"type": "tick", "orient": "horizontal", "width": 26, "thickness": 2, "color": MIDDLE}
    return {
        "width": 420,
        "height": 260,
        "data": {"values": times},
        "layer": [
            {"mark": bar, "encoding": {"y": {"field": "bound", **y}}},
            {"mark": POINT, "encoding": {"y": {"field": "speed", **y}, "color": color}},
        ],
        "encoding": {"x": field("label", "O", "", sort=order, axis={"labelAngle": -40})},
    }


def _score_charts(
    times: list[dict[str, Any]], scores: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Score against speed in the first runtime, where there are scores."""
    from deadhead.report.figures.charts import field

    runtime = times[0]["where"]
    own = {label(name): {key: score[key] for key in TITLES} for name, score in scores.items()}
    points = [row for row in times if row["where"] == runtime and row["label"] in own]
    if not points:
        return []
    points = [{**row, **own[row["label"]]} for row in points]
    if label(WHOLE) in own:
        points.append({"label": label(WHOLE), "speed": 1.0, **own[label(WHOLE)]})
    for row in points:
        at_random = row["label"].startswith("random")
        side = "left" if at_random else "right"
        row["side"] = "above" if row["label"] == label(WHOLE) else side
        row["name"] = row["label"].removeprefix("random ")
    charts = []
    scale = {"zero": False, "padding": 40}
    x = field("speed", "Q", f"times as fast, {runtime}", scale=scale)
    for name, title in TITLES.items():
        places = {"x": x, "y": field(name, "Q", title, scale={"zero": False, "padding": 20})}
        texts = [
            {
                "transform": [{"filter": f"datum.side == '{side}'"}],
                "mark": {"type": "text", "fontSize": 10, **where},
                "encoding": {**places, "text": field("name", "N")},
            }
            for side, where in SIDES.items()
        ]
        layer = [{"mark": {**POINT, "size": 50}, "encoding": places}, *texts]
        charts.append({"width": 330, "height": 260, "data": {"values": points}, "layer": layer})
    return charts
