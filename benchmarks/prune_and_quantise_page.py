"""The table and the figure of `prune_and_quantise.py`. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import read_rows
from page import fill, markdown, write_figure

SCRIPT = "prune_and_quantise.py"
TITLES = ("SmolLM2-135M: perplexity", "mini-mbert: accuracy of tagging")
WHOLE = "whole"
Row = dict[str, Any]


def quality(row: Row) -> float:
    """Perplexity, or the accuracy in points."""
    total, count = sum(row["parts"]), size(row)
    return 100 * total / count if is_tagger(row) else math.exp(total / count)


def change(row: Row, other: Row) -> tuple[float, float]:
    """The change from one row to another on the same texts, and half of its 95 % interval.

    In percent of the perplexity, or in points of accuracy; pairs of texts are independent. The
    interval is Student's t, since few windows are scored.
    """
    from scipy.special import stdtrit

    sizes = row["sizes"] if is_tagger(row) else [row["sizes"]] * len(row["parts"])
    pairs = list(zip(row["parts"], other["parts"], sizes, strict=True))
    mean = sum(b - a for a, b, _ in pairs) / sum(sizes)
    square = sum((b - a - mean * n) ** 2 for a, b, n in pairs)
    count = len(pairs)
    t = float(stdtrit(count - 1, 0.975))
    half = t * math.sqrt(square * count / (count - 1)) / sum(sizes)
    if is_tagger(row):
        return 100 * mean, 100 * half
    return 100 * math.expm1(mean), 100 * half * math.exp(mean)


def is_tagger(row: Row) -> bool:
    return isinstance(row["sizes"], list)


def size(row: Row) -> int:
    return sum(row["sizes"]) if is_tagger(row) else row["sizes"] * len(row["parts"])


def lines(name: str, rows: Sequence[Row]) -> list[list[str]]:
    """The files from the largest to the smallest, each beside the whole model in f16.

    Bold: no file of this size or smaller is better.
    """
    (first,) = (row for row in rows if (row["model"], row["format"]) == (WHOLE, "f16"))
    digits, unit = (2, "") if is_tagger(first) else (1, " %")
    cells = []
    for row in sorted(rows, key=lambda row: -row["bytes"]):
        mean, half = change(first, row)
        against = "" if row is first else f"{mean:+.{digits}f} ± {half:.{digits}f}{unit}"
        is_beaten = any(o["bytes"] <= row["bytes"] and is_better(o, row) for o in rows)
        model = row["model"].removesuffix(" of the parameters")
        model = model if is_beaten else f"**{model}**"
        size = f"{row['bytes'] / 1e6:.0f}"
        first_cell = "" if cells else name
        cells.append([first_cell, model, row["format"], size, f"{quality(row):.2f}", against])
    return cells


def is_better(row: Row, other: Row) -> bool:
    return quality(row) > quality(other) if is_tagger(row) else quality(row) < quality(other)


def write_page(page: Path, figure: Path | None, files: Sequence[Path]) -> None:
    sets = [read_rows(file) for file in files]
    names = [title.partition(":")[0] for title in TITLES]
    cells = [line for name, rows in zip(names, sets, strict=True) for line in lines(name, rows)]
    titles = ["", "model", "format", "MB", "perplexity or accuracy", "against whole f16"]
    fill(page, SCRIPT, [markdown(titles, cells)])
    if figure is not None:
        draw(figure, sets)


def draw(file: Path, sets: Sequence[Sequence[Row]]) -> None:
    """Write the figure: quality against megabytes, a line for each model, a shape a format."""
    from deadhead.report.figures.charts import categories, distinct, field, whole

    charts = []
    for title, rows in zip(TITLES, sets, strict=True):
        points = [
            {"model": r["model"], "format": r["format"], "x": r["bytes"] / 1e6, "y": quality(r)}
            for r in rows
        ]
        scale = {"type": "log", "nice": False} if not is_tagger(rows[0]) else {}
        x = field("x", "Q", "megabytes", scale={"zero": False, "nice": False, "padding": 12})
        y = field("y", "Q", title, scale={"zero": False, "padding": 12, **scale})
        color = field("model", "N", "model", scale=categories(distinct(points, "model")))
        shape = field("format", "N", "format")
        encoding = {"x": x, "y": y, "color": color}
        line = {"mark": {"type": "line", "opacity": 0.5}, "encoding": encoding}
        dot = {"type": "point", "filled": True, "size": 70, "opacity": 1}
        layer = [line, {"mark": dot, "encoding": {**encoding, "shape": shape}}]
        charts.append({"width": 300, "height": 260, "data": {"values": points}, "layer": layer})
    own_scales = {"scale": {"color": "independent", "shape": "independent"}}
    chart = {"hconcat": charts, "resolve": own_scales}
    write_figure(file, whole(chart, [], "Quality against the size of the file"))
