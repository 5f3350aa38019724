"""The published numbers that may stand beside those of a study: those of the same setting."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from deadhead.papers.catalogue import published_files

from .cells import APART, Cell, as_dict, label_text, task_info

Rows = list[dict[str, str]]


def of_same_setting(cells: Sequence[Cell], rows: Rows) -> Rows:
    """The rows with a model, task and source of the study.

    Searches are the same only if they remove the same number of heads: a column `tried` has it.
    """
    ours = {axis: {_label(axis, cell.axes.get(axis)) for cell in cells} for axis in APART}
    ours["tried"] = {str(max((cell.axes.get("k") or 0 for cell in cells), default=0))}
    # Papers name a model without its owner or folder.
    ours["model"] |= {name.rstrip("/").rpartition("/")[2] for name in ours["model"]}
    return [
        row
        for row in rows
        if all(not row.get(axis) or _label(axis, row[axis]) in ours[axis] for axis in ours)
    ]


def _label(axis: str, value: Any) -> str:
    """A label in one spelling: tasks without the corpus, languages without their order."""
    text = label_text(value)
    if axis == "task":
        return task_info(text).name
    return "+".join(sorted(text.split("+"))) if axis == "source" else text


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
