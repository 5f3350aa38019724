"""The table, the figure and the numbers of `circuits.py`, `circuits_lens.py` and `edges.py`.

    python benchmarks/circuits_page.py [--page PAGE.md] [--figure FILE.svg]

It reads their records in benchmarks/results and loads no torch.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from page import fill, markdown, write_figure

from deadhead.report.figures.charts import Chart, curves

RESULTS = Path(__file__).parent / "results"
TASKS = {
    "names": "SmolLM2-135M, indirect objects",
    "agreement": "mini-mbert, agreement of the verb",
}
EXACT, RANDOM = "exact", "random"
TITLES = ["", "ranking", "correlation with exact", "CPR", "less that of exact (95 %)", "seconds"]
Record = dict[str, Any]


def record(name: str, machine: str = "x86_64") -> Record:
    content: Record = json.loads((RESULTS / f"{name}-{machine}.json").read_text(encoding="utf-8"))
    return content


def lines(title: str, run: Record) -> list[list[str]]:
    """A line of the table for each ranking of a run; EAP ranks heads as attribution does."""
    rankings = {**run["rankings"]}
    if rankings.pop("EAP") != rankings["attribution"]:
        raise SystemExit("EAP ranks heads in another order than attribution: give it a line")
    cells = []
    for name, row in rankings.items():
        apart, low, high = row["CPR"]["less exact"]
        names = [name, "EAP"] if name == "attribution" else [name]
        seconds = [run["seconds of processor"].get(each) for each in names]
        cells.append(
            [
                title if name == EXACT else "",
                ", ".join(names),
                "" if name == RANDOM else f"{run['correlation with exact'][name]:.3f}",
                f"{row['CPR']['value']:.3f}",
                "" if name == EXACT else f"{apart:+.3f} ({low:+.3f} to {high:+.3f})",
                "; ".join(f"{time:.1f}" for time in seconds if time is not None),
            ]
        )
    return cells


def pairs(run: Record) -> str:
    return (
        f"- {run['model']} solves {run['solved']} of {run['generated']} pairs: {run['ranked on']} "
        f"to rank on, {run['kept on']} others to keep heads on."
    )


def beside(lens: Record) -> str:
    """Our edges and those of TransformerLens, in words."""
    ours, theirs = (lens["seconds for a pair"][name] for name in ("deadhead", "transformer-lens"))
    shared = next(count for name, count in lens.items() if name.startswith("of the "))
    return (
        f"- TransformerLens {lens['version']} on {lens['pairs']} pairs of {lens['model']}: its "
        f"effects of {lens['edges']:,} edges and ours have a correlation of "
        f"{lens['correlation']:.6f}, and {shared} of the 100 strongest in common. Effects reach "
        f"{lens['largest effect']:.1f}, and differ by at most {lens['largest difference']:.0e}. A "
        f"pair takes it {theirs:.1f} seconds, and deadhead {ours:.1f}."
    )


def cost(edges: Record) -> str:
    """What all edges take, as multiples of one run forward and backward."""
    families = ", ".join(row["family"] for row in edges["rows"])
    times, memory, steps = (
        ", ".join(f"{row['ratios'][measure]:.1f}" for row in edges["rows"])
        for measure in ("time", "memory", "steps")
    )
    return (
        f"- All edges of 12 x 12 heads ({families} of width {edges['width']}, {edges['pairs']} "
        f"pairs of {edges['length']} tokens, {edges['device']}) take {times} times as long "
        f"as one run forward and backward, and {memory} times the memory. Five steps take {steps} "
        f"of five times one step."
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
    bullets = [pairs(run) for run in runs.values()]
    bullets += [beside(record("circuits-lens")), cost(record("edges", "h200"))]
    parts = [markdown(TITLES, cells), "\n".join(bullets)]
    if options.page:
        fill(options.page, Path(__file__).name, parts)
    else:
        print("\n\n".join(parts))
    if options.figure:
        write_figure(options.figure, figure(runs))


if __name__ == "__main__":
    main()
