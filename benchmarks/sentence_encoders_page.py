"""The table, the figure and the appendix of `sentence_encoders.py`. Loads no torch.

    python benchmarks/sentence_encoders_page.py QUALITY.json CAPTIONS.json SPEED.json [SPEED.json]
                                                --page PAGE.md --figure FILE.svg --csv FILE.csv

Scores are means over the draws of calibration texts, less that of the whole model of the same
name. Speed-ups are those of the first draw.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from page import fill, markdown

from deadhead.report.figures.charts import DOT, Chart, categories, distinct, field, whole

RETRIEVAL = "scifact"
WHOLE, HALF = "whole", "50 % of the MACs"
CAPTIONS = {True: "the same, captions alone", False: "the same, without general texts"}
CONTROLS = ("50 % of the MACs, random units", "half of the heads, random")
SHARES = ("whole", "75 % of the MACs", HALF, "40 % of the MACs")  # a line of the figure
FRONT, SHORT = "32x128", "1x32"
SPEEDS = {
    "PyTorch": ("PyTorch", FRONT),
    "ONNX": ("ONNX Runtime", FRONT),
    "int8": ("ONNX Runtime int8", FRONT),
    "one sentence, PyTorch": ("PyTorch", SHORT),
    "one sentence, int8": ("ONNX Runtime int8", SHORT),
}
TITLES = ["left of the model", "draws", "parameters", "STS", "SciFact", *SPEEDS]
Row = dict[str, Any]


def of_file(file: Path) -> list[Row]:
    rows: list[Row] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def measures(row: Row) -> dict[str, float]:
    """The mean over the sets of similarity, and the score of retrieval."""
    similar = [score for name, score in row["scores"].items() if name != RETRIEVAL]
    return {"STS": fmean(similar), "SciFact": row["scores"][RETRIEVAL]}


def changes(rows: Sequence[Row], base: Row) -> list[dict[str, float]]:
    start = measures(base)
    return [{name: value - start[name] for name, value in measures(row).items()} for row in rows]


def settings_of(
    model: str, quality: Sequence[Row], captions: Sequence[Row]
) -> dict[str, list[Row]]:
    """The rows of each line of the table: those of one setting, and those of captions below."""
    own = [row for row in quality if row["model"] == model]
    found: dict[str, list[Row]] = {}
    for setting in distinct(own, "setting"):
        found[setting] = [row for row in own if row["setting"] == setting]
        if setting == HALF:
            for guard, name in CAPTIONS.items():
                same = [r for r in captions if r["model"] == model and r["guard"] == guard]
                if same:
                    found[name] = same
    return found


def spread(values: Sequence[float]) -> str:
    text = f"{fmean(values):+.1f}"
    return text + (f" ±{stdev(values):.1f}" if len(values) > 1 else "")


def table(model: str, found: dict[str, list[Row]], speed: dict[Any, Row]) -> str:
    (base,) = found[WHOLE]
    lines = []
    for setting, rows in found.items():
        if setting == WHOLE:
            scores = [f"{value:.1f}" for value in measures(base).values()]
        else:
            deltas = changes(rows, base)
            scores = [spread([delta[name] for delta in deltas]) for name in deltas[0]]
        sizes = rows[0].get("sizes")
        left = f"{sizes['parameters'][1] / sizes['parameters'][0]:.2f}" if sizes else ""
        times = [speed.get((model, setting, *place)) for place in SPEEDS.values()]
        fast = ["" if row is None else f"{row['speedup']:.2f}" for row in times]
        lines.append([setting, str(len(rows)), left, *scores, *fast])
    return markdown(TITLES, lines)


def figure(found: dict[str, dict[str, list[Row]]], speed: dict[Any, Row]) -> Chart:
    """Quality against the time of a batch in ONNX Runtime, a line for each model and precision."""
    points = []
    for model, settings in found.items():
        for setting, rows in settings.items():
            for runtime, note in (("ONNX Runtime", ""), ("ONNX Runtime int8", ", int8")):
                time = speed.get((model, setting, runtime, FRONT))
                scored = settings.get(f"{setting}{note}", []) if note else rows
                if time is None or not scored or (note and setting not in (WHOLE, HALF)):
                    continue
                line = setting in SHARES and not note
                kind = "random units" if setting in CONTROLS else f"{model}{note}"
                for name in ("STS", "SciFact"):
                    points.append(
                        {
                            "measure": name, "kind": kind, "line": line,
                            "milliseconds": time["milliseconds"], "name": setting,
                            "score": round(fmean(measures(row)[name] for row in scored), 2),
                        }
                    )  # fmt: skip
    kinds = distinct(points, "kind")
    places = {
        "x": field("milliseconds", "Q", "milliseconds of a batch of 32", scale={"type": "log"}),
        "y": field("score", "Q", "points", scale={"zero": False}),
        "color": field("kind", "N", "", scale=categories(kinds, grey=["random units"])),
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
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    quality, captions = of_file(options.quality), of_file(options.captions)
    times = [row for file in options.speed for row in of_file(file)]
    speed = {(r["model"], r["setting"], r["runtime"], r["shape"]): r for r in times}
    models = distinct(quality, "model")
    found = {model: settings_of(model, quality, captions) for model in models}
    tables = [f"**{model}**\n\n{table(model, found[model], speed)}" for model in models]
    if options.page:
        fill(options.page, Path(__file__).name, tables)
    else:
        print("\n\n".join(tables))
    if options.figure:
        from deadhead.report.export import PRINT, _drawers

        chart = {**figure(found, speed), "config": PRINT}
        options.figure.write_text(_drawers()["svg"](chart), encoding="utf-8")
    if options.csv:
        write(options.csv, [*quality, *captions])


def write(file: Path, rows: Sequence[Row]) -> None:
    """All scores, a line for each draw."""
    names = ["model", "setting", "texts", "guard", "draw", "seconds"]
    sets = list(rows[0]["scores"])
    with file.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow([*names, *sets])
        for row in rows:
            out.writerow([*(row.get(name) for name in names), *(row["scores"][s] for s in sets)])


if __name__ == "__main__":
    main()
