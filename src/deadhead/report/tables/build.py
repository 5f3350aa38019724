"""The tables of a study: ours beside published, with spread, count, state and a mark against the unpruned model.

Four kinds. `scores`: means. `drop`: how much of the unpruned score is lost, in percent of it. `search`:
the best of k prunings against the unpruned model and the controls. `multi-source`: rankings of several
languages put to use together. A recipe names its tables; where it names none, fitting ones are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.report.labels import removal_words, true_title
from deadhead.results import Study
from deadhead.results.cells import CHANCE, parts_of

from .grid import Layout, summed
from .searches import multi_source_table, search_table
from .values import drops_of, scores_of

MOST_NAMED = 40_000  # ids of trials in all tables of a study
PARTS = 2  # where a number that a cell lists has its parts


def tables(folder: str | Path) -> list[dict[str, Any]]:
    """Every table of the study's recipe, as far as the study has come."""
    return study_tables(Study.open(folder))


def study_tables(study: Study) -> list[dict[str, Any]]:
    asked = study.recipe.get("tables")
    wanted = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    named = [titled(study, one) for one in wanted or default_tables(study)]
    found = [MADE.get(str(one.get("kind")), scores_table)(study, one) for one in named]
    _shorten(found)
    return [
        {"id": id_of("table", i, one["title"]), **_in_words(one)} for i, one in enumerate(found)
    ]


def titled(study: Study, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a recipe asks for, with a title that names the metric shown."""
    if not asked.get("title"):
        return dict(asked)
    metrics = [str(asked["metric"])] if asked.get("metric") else study.metrics
    return {**asked, "title": true_title(str(asked["title"]), metrics)}


def _in_words(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with its removals named as a reader takes them; what is published was found by the names of the recipe."""
    named = {
        place: [
            [
                removal_words(str(label)) if name == "remove" else label
                for name, label in zip(names, labels, strict=True)
            ]
            for labels in keys
        ]
        for place, names, keys in (
            ("rows", table["row_names"], table["rows"]),
            ("columns", table["column_names"], table["columns"]),
        )
    }
    return {**table, **named}


def _shorten(tables: Iterable[Mapping[str, Any]]) -> None:
    """Have each cell name fewer of its trials where all together would name so many that they fill the page."""
    cells = [cell for table in tables for row in table["cells"] for cell in row]
    each = max(1, MOST_NAMED // max(1, len(cells)))
    if sum(len(cell["trials"]) for cell in cells) > MOST_NAMED:
        for cell in cells:
            del cell["trials"][each:]
    if sum(len(number[PARTS]) for cell in cells for number in cell["numbers"]) > MOST_NAMED:
        for cell in cells:
            del cell["numbers"][each:]
            for number in cell["numbers"]:
                del number[PARTS][max(1, each // len(cell["numbers"])) :]


def id_of(kind: str, place: int, title: str) -> str:
    """A name for the page and for files, out of a title that may hold anything."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40]
    return f"{kind}-{place + 1}" + (f"-{words}" if words else "")


def default_tables(study: Study) -> Iterator[dict[str, Any]]:
    """For a recipe that names no tables: what was varied down the side, languages across."""
    if not any("evaluate" in (part.get("steps") or ()) for part in parts_of(study.recipe)):
        return
    if study.recipe.get("search"):
        yield {"title": "Best of k", "kind": "search"}
        return
    varied = [
        name
        for name in study.axes
        if name not in (*CHANCE, "strategy", "amount", "targets", "splits")
    ]
    if len(study.languages) > 1:
        yield {"title": "Scores", "rows": varied or ["model"], "columns": "language"}
    else:
        across = "task" if "task" in varied and len(varied) > 1 else "language"
        yield {
            "title": "Scores",
            "rows": [name for name in varied if name != across] or ["model"],
            "columns": across,
        }


def scores_table(study: Study, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Means over what the rows and columns leave open."""
    return summed(
        study, asked, Layout.of(study, asked, ("remove",), ("language",)), scores_of(asked)
    )


def drop_table(study: Study, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The share of the unpruned score that is lost, against the unpruned cell with the same other labels."""
    return summed(
        study,
        asked,
        Layout.of(study, asked, ("remove",), ("language",)),
        drops_of(study, asked),
        lower_is_better=True,
    )


MADE: Mapping[str, Callable[[Study, Mapping[str, Any]], dict[str, Any]]] = {
    "scores": scores_table,
    "drop": drop_table,
    "search": search_table,
    "multi-source": multi_source_table,
}
