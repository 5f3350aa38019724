"""Where to get the files of a task, and how to lay them out in a folder: rows of `places.csv`."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from deadhead.tasks.task import Task


def place_of(task: Task, lang: str) -> str:
    """Say what to put into a data folder for a task in a language, and where to get it."""
    places = _places()
    return places.get((task.name, lang)) or places.get((task.name, "")) or "the files"


@cache
def _places() -> dict[tuple[str, str], str]:
    with (resources.files(__package__) / "places.csv").open(encoding="utf-8") as file:
        return {
            (row["task"], row["lang"]): row["files"] + (f" ({row['from']})" if row["from"] else "")
            for row in csv.DictReader(file)
        }
