"""The table and the picture of `rankings.py`, for docs/results/rankers.md. No torch.

python benchmarks/rankings_page.py FILE --page docs/results/rankers.md [--figure FILE.svg]
python benchmarks/rankings_page.py FILE --page docs/results/appendix/rankers-areas.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from machine import read_rows
from page import fill, markdown, run, write_figure
from shrink_curves_figure import Point, lines
from shrink_curves_rows import interval, minus

from deadhead.errors import DataError
from deadhead.report.figures.charts import Chart, whole

RANDOM, DEFAULT = "random", "taylor"
CURVES = ("cut", "repaired", "reversed")
FORMS = ("cut", "repaired", "one epoch", "reversed")
DRAWN = (DEFAULT, "fisher", "osscar", "entropy", RANDOM)  # five lines are enough for a panel
Row = dict[str, Any]


def area(losses: Mapping[Any, float], whole: float) -> float:
    """The mean of the curve between its first and its last level, minus the whole model's loss."""
    points = sorted((int(level), loss) for level, loss in losses.items())
    parts = ((b - a) * (one + other) / 2 for (a, one), (b, other) in pairwise(points))
    return sum(parts) / (points[-1][0] - points[0][0]) - whole


def rises(rows: Sequence[Row], ranking: str, form: str) -> dict[int, float]:
    """The area of each seed; after an epoch the rise at the one level that has it."""
    own = [row for row in rows if row["ranking"] == ranking]
    if form in CURVES:
        return {row["seed"]: area(row[form], row["whole"]) for row in own}
    return {row["seed"]: row["trained"] - row["whole"] for row in own}


def line_of(rows: Sequence[Row], ranking: str) -> str:
    """The row of a ranking in words: means over its seeds, against random in the same seeds."""
    parts = []
    for form in FORMS:
        own = rises(rows, ranking, form)
        against = interval(minus(own, rises(rows, RANDOM, form)).values())
        parts.append(f"{form} {fmean(own.values()):.3f} ({_text(against)})")
    return f"{ranking}: rise of the loss (against random): " + ", ".join(parts)


def names_of(rows: Sequence[Row]) -> list[str]:
    """The rankings, the best after a repair first."""
    names = dict.fromkeys(row["ranking"] for row in rows)
    return sorted(names, key=lambda name: fmean(rises(rows, name, "repaired").values()))


def table(rows: Sequence[Row]) -> str:
    """What each ranking saves of the rise of random heads, in pairs of a seed; in thousandths."""
    titles = [
        "ranking", "cut", "repaired", "one epoch", f"repaired, against {DEFAULT}", "reversed, cut",
        "passes", "seconds",
    ]  # fmt: skip
    body = []
    for name in names_of(rows):
        own = {form: rises(rows, name, form) for form in FORMS}
        control = {form: rises(rows, RANDOM, form) for form in FORMS}
        if name == RANDOM:
            changes = [f"{1000 * fmean(own[form].values()):.0f}" for form in FORMS]
        else:
            changes = [_thousandths(minus(own[f], control[f])) for f in FORMS]
        default = rises(rows, DEFAULT, "repaired")
        paired = minus(own["repaired"], default) if name != DEFAULT else {}
        costs = [
            median(row[cost] for row in rows if row["ranking"] == name)
            for cost in ("passes", "seconds")
        ]
        label = f"*{name}*" if name == RANDOM else f"`{name}`"
        body.append(
            [label, *changes[:3], _thousandths(paired), changes[3]]
            + [f"{cost:.1f}" for cost in costs]
        )
    return markdown(titles, body)


def seeds_table(rows: Sequence[Row]) -> str:
    """Every area, by ranking and seed."""
    body = []
    for name in names_of(rows):
        areas = {form: rises(rows, name, form) for form in FORMS}
        for row in sorted((r for r in rows if r["ranking"] == name), key=lambda r: r["seed"]):
            values = [f"{areas[form][row['seed']]:.4f}" for form in FORMS]
            body.append([name, str(row["seed"]), f"{row['whole']:.4f}", *values])
    return markdown(["ranking", "seed", "loss of the whole model", *FORMS], body)


def _thousandths(changes: Mapping[int, float]) -> str:
    value = interval(1000 * change for change in changes.values())
    if value is None:
        return ""
    return f"{value.mean:+.0f}" + (f" ± {value.half:.0f}" if value.n > 2 else "")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.mean:+.3f}" + (f" ± {value.half:.3f}" if value.n > 2 else "")


def curves(rows: Sequence[Row]) -> Chart:
    """The loss against the share removed, cut and repaired."""
    columns = []
    for form in ("cut", "repaired"):
        points: list[Point] = []
        for name in DRAWN:
            by_level: dict[int, list[float]] = {}
            for row in rows:
                if row["ranking"] == name:
                    for level, loss in row[form].items():
                        by_level.setdefault(int(level), []).append(loss - row["whole"])
            for level, values in sorted(by_level.items()):
                known = interval(values)
                assert known is not None  # for mypy: there are values
                half = known.half if known.n > 2 else 0.0
                ends = {"low": known.mean - half, "high": known.mean + half}
                point = {"line": name, "x": level, "y": known.mean, "n": known.n, "piece": 0}
                points.append({**point, **ends})
        up = {"title": "rise of the loss", "scale": {"zero": True}}
        chart = lines([*DRAWN], "heads removed, %", "ranking", up)
        title = {"text": form, "anchor": "middle"}
        columns.append(
            {**chart, "title": title, "data": {"values": points}, "width": 260, "height": 260}
        )
    title = "The loss on test examples against the share of heads removed"
    text = {"text": title, "subtitle": "means of five models; bands: 95 % interval of the mean"}
    return {**whole({"hconcat": columns}, [], title), "title": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="of rankings.py")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if not options.file.is_file():
        raise DataError(f"there is no {options.file}.", "name a file of benchmarks/rankings.py")
    rows = read_rows(options.file)
    if options.page:
        one = seeds_table if options.page.suffix == ".csv" else table
        fill(options.page, "rankings_page.py", [one(rows)])
    if options.figure:
        write_figure(options.figure, curves(rows))
    if not options.page and not options.figure:
        print(table(rows))


if __name__ == "__main__":
    run(main)
