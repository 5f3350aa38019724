"""The table, the figure and the numbers of `circuits.py`.

    python benchmarks/circuits_page.py [--page PAGE.md] [--figure FILE.svg]

It reads their records in benchmarks/results and loads no torch.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from page import fill, markdown

from deadhead.report.figures.charts import Chart, curves

RESULTS = Path(__file__).parent / "results"
TASKS = {
    "names": "SmolLM2-135M, indirect objects",
    "agreement": "mini-mbert, agreement of the verb",
}
EXACT, RANDOM = "exact", "random"
TITLES = ["", "ranking", "correlation with exact", "CMD", "CPR"]
TITLES += ["CPR, less that of exact (95 %)", "seconds"]
Record = dict[str, Any]


def record(name: str) -> Record:
    content: Record = json.loads((RESULTS / f"{name}-x86_64.json").read_text(encoding="utf-8"))
    return content


def lines(title: str, run: Record) -> list[list[str]]:
    """A line of the table for each ranking of a run."""
    cells = []
    for name, row in run["rankings"].items():
        apart, low, high = row["CPR"]["less exact"]
        cells.append(
            [
                title if name == EXACT else "",
                name,
                f"{run['correlation with exact'][name]:.3f}" if name != RANDOM else "",
                *(f"{row[measure]['value']:.3f}" for measure in ("CMD", "CPR")),
                "" if name == EXACT else f"{apart:+.3f} ({low:+.3f} to {high:+.3f})",
                f"{run['seconds of processor'][name]:.1f}" if name != RANDOM else "",
            ]
        )
    return cells


def pairs(title: str, run: Record) -> str:
    return (
        f"- {title}: the model solves {run['solved']} of {run['generated']} pairs; heads are "
        f"ranked on {run['ranked on']} of them and kept on {run['kept on']} others."
    )


def figure(runs: dict[str, Record]) -> Chart:
    values = [
        {"panel": TASKS[task], "line": name, "x": f"{share * 100:g} %", "y": value}
        for task, run in runs.items()
        for name, row in run["rankings"].items()
        for share, value in zip(run["fractions"], row["faithfulness"], strict=True)
    ]
    order = [f"{share * 100:g} %" for share in runs["names"]["fractions"]]
    title = {"x": "heads kept, the highest first", "y": "faithfulness"}
    return curves(values, "", **title, order=order, grey=[RANDOM], form=".2f")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    runs = {task: record(f"circuits-{task}") for task in TASKS}
    cells = [line for task, run in runs.items() for line in lines(TASKS[task], run)]
    bullets = [pairs(TASKS[task], run) for task, run in runs.items()]
    parts = [markdown(TITLES, cells), "\n".join(bullets)]
    if options.page:
        fill(options.page, Path(__file__).name, parts)
    else:
        print("\n\n".join(parts))
    if options.figure:
        from deadhead.report.export import PRINT, _drawers

        chart = {**figure(runs), "config": PRINT}
        options.figure.write_text(_drawers()["svg"](chart), encoding="utf-8")


if __name__ == "__main__":
    main()
