"""What a recipe says about its trials: tables, figures, claims and a line of text.

Only the shape of these lists is checked here. The kinds of tables and figures and the claims are
known to rooms above, which give `load` a function that checks them (`DisplayCheck`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.papers.catalogue import published_files
from deadhead.studies.fields import Problem
from deadhead.studies.step import fields

from .expand import grids

DisplayCheck = Callable[[Mapping[str, Any], Path], Iterable[Problem]]

# Axes of every score, besides those of the recipe.
SCORE_AXES = ["language", "target", "setting", "arm", "k", "parts"]
SCORE_AXES += ["metric", "strategy", "amount", "split"]
EXAMPLES = {
    "tables": "{title: TEXT, rows: AXIS, columns: AXIS}",
    "figures": "{title: TEXT, kind: curve, x: AXIS}",
}
UNPRUNED = "none"  # the value of the axis `strategy` for a model that keeps its heads


def display_problems(
    data: Mapping[str, Any], folder: Path, check: DisplayCheck | None
) -> Iterator[Problem]:
    """Yield what is wrong with the tables, the figures, the claims and `about` of a recipe."""
    if not isinstance(data.get("about", ""), str):
        yield ("about",), "expected one line of text."
    shapes: list[Problem] = [
        ((part,), f"expected a list of {part}, each {example}.")
        for part, example in EXAMPLES.items()
        if not _is_list(data.get(part), dict)
    ]
    if not _is_list(data.get("claims"), str):
        shapes.append((("claims",), "expected a list of names."))
    yield from shapes or (check(data, folder) if check is not None else ())


def _is_list(value: Any, kind: type) -> bool:
    return not value or (isinstance(value, list) and all(isinstance(v, kind) for v in value))


def axes_of(data: Mapping[str, Any]) -> set[str]:
    """The axes that a table or figure may name."""
    names = {*fields(), *SCORE_AXES}
    for part in (data, *(data.get("include") or ())):
        for grid in grids(part).values() if isinstance(part, Mapping) else ():
            names |= {*grid} if isinstance(grid, dict) else set()
    return names


def published(name: Any, folder: Path) -> Any:
    """The file of published numbers that a table names.

    `x.csv` is beside the recipe or in the paper's folder `published`, `weak-link/table1.csv` in
    that of another paper.
    """
    if isinstance(name, str) and Path(name).name == name:
        for file in (folder / name, folder.parent / "published" / name):
            if file.is_file():
                return file
    return published_files().get(str(name))
