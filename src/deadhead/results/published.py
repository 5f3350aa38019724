"""The published numbers that may stand beside those of a study: those of the same setting."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from deadhead.papers.catalogue import published_files

from .cells import APART, Cell, as_dict, plain_text, task_info

Rows = list[dict[str, str]]
MOST_NAMED = 3  # labels of an axis in a sentence


def of_same_setting(cells: Sequence[Cell], rows: Rows) -> tuple[Rows, str]:
    """The rows with a model, task and source of the study, and in words why there are none.

    Searches are the same only if they remove the same number of heads: a column `tried` has it.
    """
    labels_of = {axis: {_label(axis, cell.axes.get(axis)) for cell in cells} for axis in APART}
    heads = {"tried": {str(max((cell.axes.get("k") or 0 for cell in cells), default=0))}}
    ours = {axis: labels - {""} for axis, labels in (labels_of | heads).items()}
    # Papers name a model without its owner or folder.
    short = {name.rstrip("/").rpartition("/")[2] for name in ours["model"]}
    accepted = {**ours, "model": ours["model"] | short}
    same = [
        row
        for row in rows
        if all(not row.get(axis) or _label(axis, row[axis]) in accepted[axis] for axis in ours)
    ]
    return same, "" if same or not rows else _difference(rows, ours)


def _difference(rows: Rows, ours: dict[str, set[str]]) -> str:
    theirs = {axis: {_label(axis, row[axis]) for row in rows if row.get(axis)} for axis in ours}
    parts = [
        f"{_words(axis, theirs[axis])} (here {_words('', ours[axis]) or 'none'})"
        for axis in ours
        if theirs[axis] and not theirs[axis] & ours[axis]
    ]
    differ = "; ".join(parts) or "other combinations of model, task and source"
    return f"The published numbers are not shown, since they are of {differ}."


def _label(axis: str, value: Any) -> str:
    """A label in one spelling: tasks without the corpus, languages without their order."""
    text = plain_text("" if value is None else value)
    if axis == "task":
        return task_info(text).name
    return "+".join(sorted(text.split("+"))) if axis == "source" else text


def _words(axis: str, labels: set[str]) -> str:
    names = sorted(labels)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    words = {"": "", "tried": "searches of up to "}.get(axis, f"{axis} ")
    return f"{words}{', '.join(names[:MOST_NAMED])}{more}{' heads' if axis == 'tried' else ''}"


def published_by(description: Mapping[str, Any]) -> dict[str, Rows]:
    """The published numbers that the tables of a recipe name: file name -> rows.

    The study keeps a copy of its files; without one the paper of a built-in recipe has it.
    """
    tables = as_dict(description.get("recipe")).get("tables")
    names = [as_dict(table).get("published") for table in (tables or ())]
    copies, paper = as_dict(description.get("published")), str(description.get("name", ""))
    files: dict[str, Rows] = {}
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        printed = published_files().get(f"{paper.partition('/')[0]}/{name}")
        text = copies.get(name) or (printed.read_text(encoding="utf-8") if printed else "")
        if text:
            files[name] = list(csv.DictReader(io.StringIO(text)))
    return files
