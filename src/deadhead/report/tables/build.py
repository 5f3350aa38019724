"""Build the tables of a study: those its recipe names, or suggested ones if it names none."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deadhead.report.labels import removal_words
from deadhead.report.spec import specs
from deadhead.results import Study

from . import TABLES, USUAL

MOST_LISTED = 40_000  # ids of trials in all tables of a study
PARTS = 2  # the index of its parts in a number that a cell lists


def tables(folder: str | Path) -> list[dict[str, Any]]:
    """Every table of a study; trials that are missing or failed are marked."""
    return study_tables(Study.open(folder))


def study_tables(study: Study) -> list[dict[str, Any]]:
    named = list(specs(study.recipe.get("tables"), TABLES, USUAL))
    suggested = (table for kind in TABLES.values() for table in kind.suggest(study))
    built = [table.build(study) for table in named or suggested]
    _shorten(built)
    return [
        {"id": display_id("table", i, table["title"]), **_with_removal_words(table)}
        for i, table in enumerate(built)
    ]


def _with_removal_words(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the labels of removals in words.

    Published numbers are looked up before, by the labels of the recipe.
    """

    def words(axes: list[str], keys: list[list[Any]]) -> list[list[Any]]:
        return [
            [removal_words(str(v)) if a == "remove" else v for a, v in zip(axes, key, strict=True)]
            for key in keys
        ]

    rows = words(table["row_names"], table["rows"])
    return {**table, "rows": rows, "columns": words(table["column_names"], table["columns"])}


def _shorten(tables: Iterable[Mapping[str, Any]]) -> None:
    """List fewer trials in each cell if the lists of all cells would fill the page."""
    cells = [cell for table in tables for row in table["cells"] for cell in row]
    each = max(1, MOST_LISTED // max(1, len(cells)))
    if sum(len(cell["trials"]) for cell in cells) > MOST_LISTED:
        for cell in cells:
            del cell["trials"][each:]
    if sum(len(number[PARTS]) for cell in cells for number in cell["numbers"]) > MOST_LISTED:
        for cell in cells:
            del cell["numbers"][each:]
            for number in cell["numbers"]:
                del number[PARTS][max(1, each // len(cell["numbers"])) :]


def display_id(noun: str, index: int, title: str) -> str:
    """A name for the page and for files, made from a title with any characters."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40]
    return f"{noun}-{index + 1}" + (f"-{words}" if words else "")
