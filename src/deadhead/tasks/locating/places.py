"""Where to get the files of a task, and how to lay them out in a data folder: the rows of `places.csv`."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from deadhead.tasks.task import Task


@cache
def _places() -> dict[tuple[str, str], str]:
    with (resources.files(__package__) / "places.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["task"], row["lang"]): row["files"] + (f" ({row['from']})" if row["from"] else "")
        for row in rows
    }


def place_of(task: Task, lang: str) -> str:
    """What to put into a data folder for a task in a language, with where it comes from."""
    places = _places()
    return places.get((task.name, lang)) or places.get((task.name, "")) or "the files"
