"""The tables of `shrink_curves_report.py` as CSV files, those of one kind in one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from page import write_csv
from shrink_curves_rows import ENGLISH, TRANSFER

KINDS = ("answer", "how much", "choices", "one epoch", "control", "refit or train", "ranking")
MEASURED = {"answer", "ranking"}  # one table for each measure
Part = tuple[dict[str, str], str]  # what is the same in all rows of a table, and the table


def write_appendix(folder: Path, tables: Mapping[str, Callable[[], str]]) -> list[Path]:
    """Write the tables, by their name in the marks of a page, and return the files."""
    files: dict[str, list[Part]] = {}
    for name, make in tables.items():
        kind, _, rest = name.partition(", ")
        units, by, _ = kind.partition(" by ")
        labels: dict[str, str] = {}
        if by and kind.endswith("share"):
            measure, _, task = rest.partition(", ")
            labels = {"removed": units, "points of": measure, "tasks": task or "mean"}
            kind = "by share"
        elif by:
            labels, kind = {"removed": units, "share": rest}, "by task"
        elif kind not in KINDS or rest not in ("", ENGLISH, TRANSFER):
            continue  # a shorter table of a page
        elif kind in MEASURED:
            labels = {"points of": rest or ENGLISH}
        files.setdefault(kind.replace(" ", "-"), []).append((labels, make()))
    for kind, parts in files.items():
        write_csv(folder / f"shrink-curves-{kind}.csv", parts)
    return [folder / f"shrink-curves-{kind}.csv" for kind in files]
