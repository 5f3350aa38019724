"""Is what a recipe tells of its trials right: its tables, figures and claims?

A table or a figure speaks of axes: those of the recipe, and those every number has (`Score`): the language it was
scored in, the setting, the arm and the k of a search. FIGURES names the kinds of figures and the fields of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from deadhead.errors import unknown_name
from deadhead.papers import published_files
from deadhead.studies.fields import Problem, among, unknown
from deadhead.studies.step import fields
from deadhead.tasks.dataset import SPLITS

from .yaml import Path

ALWAYS = (
    "language",
    "target",
    "setting",
    "arm",
    "k",
    "parts",
    "metric",
    "strategy",
    "amount",
    "split",
)  # axes of every number
TABLE = (
    "title",
    "rows",
    "columns",
    "mean_over",
    "metric",
    "split",
    "where",
    "published",
    "kind",
    "change",
    "remove_as",
)
REMOVE_AS = (
    "percent",
    "components",
)  # how the label of a pruning is written in the rows of a table
TABLES = ("scores", "drop", "search", "multi-source")
EVERY = ("title", "kind", "where", "note")  # fields of every figure
FIGURES: Mapping[str, tuple[str, ...]] = {
    "curve": ("x", "lines", "panels", "value", "mean_over", "group", "metric", "split"),
    "heads": ("show", "panels"),
    "similarity": ("panels",),
    "points": (),
    "cost": ("metric", "split"),
    "epochs": (),
    "ends": ("group", "metric", "split"),
    "recovery": (),
    "layers": ("show", "lines"),
    "gains": (),
}
WORDS: Mapping[str, tuple[str, ...]] = {  # fields of a figure that are one of a few words
    "value": ("score", "drop", "gain"),  # gain: of a search, over its unpruned model
    "group": ("word_order", "resource", "family"),
    "show": ("removed", "ranking", "entropy", "entropy_change", "weights"),
}
NEEDED = {"curve": "x", "heads": "show"}
AXES = ("rows", "columns", "mean_over", "x", "lines", "panels")  # fields that name axes
UNPRUNED = "none"  # what `strategy` says of a model that keeps its heads
SPLIT = re.compile(rf"({'|'.join(SPLITS)})(@1)?")


def shown(data: Mapping[str, Any], folder: File) -> Iterator[Problem]:
    """What is wrong with the tables, the figures, the claims and the line about a recipe."""
    if not isinstance(data.get("about", ""), str):
        yield ("about",), "this is one line of text."
    known = axes_of(data)
    for part, example in (
        ("tables", "{title: TEXT, rows: AXIS, columns: AXIS}"),
        ("figures", "{title: TEXT, kind: curve, x: AXIS}"),
    ):
        given = data.get(part) or []
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            yield (part,), f"this is a list of {part}, each {example}."
            continue
        for i, one in enumerate(given):
            checked = _table(one, folder) if part == "tables" else _figure(one)
            yield from (
                ((part, i, *path), problem) for path, problem in (*checked, *_axes(one, known))
            )
    claims = data.get("claims") or []
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        yield ("claims",), "this is a list of names."


def axes_of(data: Mapping[str, Any]) -> set[str]:
    """The names a table or figure may speak of."""
    found = {*fields(), *ALWAYS}
    for part in (data, *(data.get("include") or ())):
        axes = part.get("axes") or {} if isinstance(part, Mapping) else {}
        found |= {
            name
            for grid in (axes if isinstance(axes, list) else [axes])
            if isinstance(grid, dict)
            for name in grid
        }
    return found


def _table(table: Mapping[str, Any], folder: File) -> Iterator[Problem]:
    yield from unknown(table, TABLE, (), "field of a table")
    if not among(table.get("kind", "scores"), TABLES):
        yield ("kind",), unknown_name("kind of table", table["kind"], TABLES).message
    if not isinstance(table.get("change", False), bool):
        yield (
            ("change",),
            f"got {table['change']!r}; expected true (the change from the unpruned model in brackets) or false.",
        )
    if table.get("remove_as") is not None and not among(table["remove_as"], REMOVE_AS):
        yield (
            ("remove_as",),
            unknown_name("way to write a pruning", table["remove_as"], REMOVE_AS).message,
        )
    for field in ("change", "remove_as"):
        if table.get(field) and table.get("kind", "scores") != "scores":
            yield (
                (field,),
                f"this is for tables of kind scores, and this table is of kind {table['kind']}.",
            )
    named = table.get("published")
    if named is not None and published(named, folder) is None:
        known = (
            f", and {unknown_name('table of a built-in one', named, published_files()).message}"
            if "/" in str(named)
            else "."
        )
        yield ("published",), f"there is no file {named} beside the recipe{known}"


def _figure(figure: Mapping[str, Any]) -> Iterator[Problem]:
    kind = figure.get("kind")
    if not among(kind, FIGURES):
        if kind is None:
            yield (), f"this figure says no kind, out of {', '.join(FIGURES)}."
        else:
            yield ("kind",), unknown_name("kind of figure", kind, FIGURES).message
        return
    yield from unknown(
        figure, (*EVERY, *FIGURES[str(kind)]), (), f"field of a figure of kind {kind}"
    )
    for name, words in WORDS.items():
        if name in figure and not among(figure[name], words):
            yield (name,), unknown_name(name, figure[name], words).message
    if figure.get("value") == "gain" and figure.get("x") != "k":
        yield ("value",), "a gain is shown over the heads a search removes: x: k."
    needed = NEEDED.get(str(kind))
    if needed is not None and needed not in figure:
        yield (), f"a figure of kind {kind} needs {needed}."


def _axes(one: Mapping[str, Any], known: set[str]) -> Iterator[Problem]:
    """What holds for tables and figures alike: axes that are there, a metric and a split that are ones, texts."""
    from deadhead.strategies import STRATEGIES
    from deadhead.tasks import METRICS

    if one.get("metric") is not None and not among(one["metric"], METRICS):
        yield ("metric",), unknown_name("metric", one["metric"], METRICS).message
    for part in ("title", "note"):
        if not isinstance(one.get(part, ""), str):
            yield (part,), "this is a text."
    for part in AXES:
        given = one.get(part)
        for name in given if isinstance(given, list) else [given]:
            if given is not None and not among(name, known):
                yield (part,), unknown_name("axis", name, known).message
    where = one.get("where") or {}
    if not isinstance(where, dict):
        yield ("where",), "this is a mapping from axes to values, such as {task: mnli}."
    else:
        path: Path = ("where",)
        yield from unknown(where, known, path, "axis")
        asked = where.get("strategy", [])
        for name in asked if isinstance(asked, list) else [asked]:
            if not among(name, (UNPRUNED, *STRATEGIES)):
                yield (
                    ("where", "strategy"),
                    unknown_name("strategy", name, (UNPRUNED, *STRATEGIES)).message,
                )
    split = one.get("split")
    if split is not None and not (isinstance(split, str) and SPLIT.fullmatch(split)):
        yield (
            ("split",),
            f"{split!r} is not a split; write {', '.join(SPLITS)}, or one after the first epoch such as dev@1.",
        )


def published(name: Any, folder: File) -> Any:
    """The file of published numbers that a table names.

    `x.csv` is beside the recipe or in the paper's `published`, `weak-link/table1.csv` in that of another paper.
    """
    if isinstance(name, str) and File(name).name == name:
        for file in (folder / name, folder.parent / "published" / name):
            if file.is_file():
                return file
    return published_files().get(str(name))
