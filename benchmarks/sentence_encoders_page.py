"""The table, the figure and the appendix of `sentence_encoders.py`. Loads no torch.

    python benchmarks/sentence_encoders_page.py QUALITY.json CAPTIONS.json SPEED.json [SPEED.json]
                                                --page PAGE.md --figure FILE.svg
                                                --scores FILE.csv --speeds FILE.csv

Scores are means over the draws of calibration texts, less that of the whole model of the same
name, with half of the 95 % interval. Speed-ups are those of the first draw.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import read_rows
from page import fill, markdown, write_figure

from deadhead.papers.claims.rule import interval
from deadhead.report.figures.charts import DOT, Chart, categories, distinct, field, whole

RETRIEVAL = "scifact"
WHOLE, HALF = "whole", "50 % of the MACs"
SHARES = (WHOLE, "75 % of the MACs", HALF, "40 % of the MACs")  # a line of the figure
CONTROLS = (f"{HALF}, random units",)
INT8 = ", int8"
ROWS = (
    *SHARES, "half of the heads", "a quarter of the heads", "half of the neurons", *CONTROLS,
    WHOLE + INT8, HALF + INT8, "first half of the layers",
)  # fmt: skip
SHORT = {
    "half of the heads": "heads 1/2", "a quarter of the heads": "heads 1/4",
    "half of the neurons": "neurons 1/2",
}  # fmt: skip
TIMES = {"PyTorch": "32x128", "ONNX Runtime": "32x128", "one sentence": "1x32"}
TITLES = ["kept", "STS", "SciFact", *TIMES]
Row = dict[str, Any]
Key = tuple[str, str, str, str]  # model, setting, runtime, shape


def measures(row: Row) -> dict[str, float]:
    """The mean over the sets of similarity, and the score of retrieval."""
    similar = [score for name, score in row["scores"].items() if name != RETRIEVAL]
    return {"STS": fmean(similar), "SciFact": row["scores"][RETRIEVAL]}


def changes(rows: Sequence[Row], base: Row) -> list[dict[str, float]]:
    start = measures(base)
    return [{name: value - start[name] for name, value in measures(row).items()} for row in rows]


def with_interval(values: Sequence[float]) -> str:
    text = f"{fmean(values):+.1f}"
    return text + (f" ± {interval(values):.1f}" if len(values) > 2 else "")


def table(rows: Sequence[Row], speed: dict[Key, Row]) -> str:
    lines = []
    for model in distinct(rows, "model"):
        own = [row for row in rows if row["model"] == model]
        (base,) = (row for row in own if row["setting"] == WHOLE)
        lines.append([f"**{model}**", *(f"{v:.1f}" for v in measures(base).values())])
        for setting in ROWS:
            draws = [row for row in own if row["setting"] == setting]
            if not draws:
                continue
            apart = changes(draws, base)
            scores = [with_interval([change[name] for change in apart]) for name in apart[0]]
            if setting == WHOLE:
                lines[-1] += speeds(model, setting, speed)
            else:
                lines.append([setting, *scores, *speeds(model, setting, speed)])
        for other in distinct(rows, "model"):
            if (model, other, "PyTorch", "32x128") in speed:
                (small,) = (r for r in rows if r["model"] == other and r["setting"] == WHOLE)
                (change,) = changes([small], base)
                scores = [f"{value:+.1f}" for value in change.values()]
                lines.append([f"{other} instead", *scores, *speeds(model, other, speed)])
    return markdown(TITLES, lines)


def speeds(model: str, setting: str, speed: dict[Key, Row]) -> list[str]:
    """How many times as fast as the whole model in PyTorch, for each column."""
    cells = []
    for name, shape in TIMES.items():
        runtime = "PyTorch" if name == "PyTorch" else "ONNX Runtime"
        if setting.endswith(INT8):
            runtime += " int8"
        row = speed.get((model, setting.removesuffix(INT8), runtime, shape))
        cells.append("" if row is None or setting in CONTROLS else f"{row['speedup']:.1f}")
    return cells


def figure(rows: Sequence[Row], speed: dict[Key, Row]) -> Chart:
    """Quality against the time of a batch in ONNX Runtime, a line for each model."""
    points = []
    for model in distinct(rows, "model"):
        for setting in ROWS:
            runtime = "ONNX Runtime" + (" int8" if setting.endswith(INT8) else "")
            time = speed.get((model, setting.removesuffix(INT8), runtime, "32x128"))
            draws = [r for r in rows if (r["model"], r["setting"]) == (model, setting)]
            if time is None or not draws or setting.startswith("first"):
                continue  # half as deep is 50 points below, and would flatten the rest
            kind = f"{model}{INT8}" if setting.endswith(INT8) else model
            for name in ("STS", "SciFact"):
                points.append(
                    {
                        "measure": name, "kind": kind, "line": setting in SHARES,
                        "milliseconds": time["milliseconds"],
                        "name": SHORT.get(setting, setting.partition(" of ")[0].partition(",")[0]),
                        "score": round(fmean(measures(row)[name] for row in draws), 2),
                    }
                )  # fmt: skip
    kinds = distinct(points, "kind")
    places = {
        "x": field("milliseconds", "Q", "milliseconds of a batch of 32", scale={"type": "log"}),
        "y": field("score", "Q", "points", scale={"zero": False}),
        "color": field("kind", "N", "", scale=categories(kinds)),
    }
    line = {"transform": [{"filter": "datum.line"}], "mark": {"type": "line"}, "encoding": places}
    dots = {"mark": DOT, "encoding": places}
    text = {
        "mark": {"type": "text", "dx": 7, "align": "left", "fontSize": 9},
        "encoding": {**places, "text": field("name", "N")},
    }
    spec = {"width": 360, "height": 280, "layer": [line, dots, text]}
    panels = {"facet": {"column": field("measure", "N", "")}, "spec": spec}
    return whole({**panels, "resolve": {"scale": {"y": "independent"}}}, points, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("quality", type=Path)
    parser.add_argument("captions", type=Path)
    parser.add_argument("speed", type=Path, nargs="+")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--speeds", type=Path)
    options = parser.parse_args()
    quality, captions = read_rows(options.quality), read_rows(options.captions)
    times = [row for file in options.speed for row in read_rows(file)]
    speed = {(r["model"], r["setting"], r["runtime"], r["shape"]): r for r in times}
    text = table(quality, speed)
    if options.page:
        fill(options.page, Path(__file__).name, [text])
    else:
        print(text)
    if options.figure:
        write_figure(options.figure, figure(quality, speed))
    if options.scores:
        names = ("model", "setting", "texts", "guard", "draw", "seconds")
        lines = [{**{n: row.get(n) for n in names}, **row["scores"]} for row in quality + captions]
        write(options.scores, lines)
    if options.speeds:
        write(options.speeds, [{**row, "half": "{} to {}".format(*row["half"])} for row in times])


def write(file: Path, rows: Sequence[Row]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
