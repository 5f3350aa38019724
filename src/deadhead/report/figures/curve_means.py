"""The options of figures of kind `curve`, and their values, gathered by panel, line and x."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, removal_unit
from deadhead.report.spec import Figure, Scored, axes, axis, word
from deadhead.results import Mean, Study
from deadhead.results.cells import Cell, matches
from deadhead.results.means import BY_LANGUAGE, ValuesOf, group_cells, repetitions
from deadhead.strategies.amounts import PERCENT
from deadhead.studies.fields import Problem
from deadhead.tasks.languages import code_of, languages

GROUPS = ("word_order", "resource", "family")  # classes of languages
REMOVALS = ("remove", "amount", "percent")  # values of x that stand for what is removed
PARTS = ("parts", "data.parts", "data.target_parts")
ALL_PARTS = 10.0  # of a training set
Points = dict[tuple[Any, Any, Any], Mean]  # by panel, line and x
Removal = tuple[Any, Any]  # a model and what is removed from it
Start = tuple[Sequence[Cell], str, Sequence[Any], Sequence[float | None]]  # as Mean.add takes it


@dataclass(frozen=True, kw_only=True)
class CurveOptions(Scored, Figure):
    """What a curve shows: the axis of x, lines, panels, and what is averaged."""

    x: str = axis(required=True)
    lines: str = axis()
    panels: tuple[str, ...] = axes()
    value: str = word("score", "drop", "gain")
    mean_over: tuple[str, ...] = axes()
    group: str = word(*GROUPS, default="")  # classes of languages, as lines or panels

    def conflicts(self) -> Iterator[Problem]:
        if self.value == "gain" and self.x != "k":
            yield ("value",), "a gain is shown over the heads that a search removes: x: k."

    @property
    def by_removal(self) -> bool:
        return self.x in REMOVALS

    @property
    def lines_are_removals(self) -> bool:
        return self.lines in ("", "remove", "strategy")


def position(cell: Cell) -> tuple[str, float | str]:
    """The line of a removal, and how far along it; a removal that has no number keeps its label."""
    if cell.unpruned:
        return "", 0.0
    axes = cell.axes
    return _position(str(axes.get("strategy", "")), axes.get("amount"), str(axes.get("remove")))


@cache
def _position(strategy: str, amount: Any, label: str) -> tuple[str, float | str]:
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        return strategy, float(amount)
    words, numbers = re.findall(r"[a-z]+", str(amount)), re.findall(r"\d+", str(amount))
    if strategy == "layers" and words and len(words) == len(numbers):
        return " + ".join(words), float(sum(map(int, numbers)))
    return strategy, label


def removal_percents(study: Study, spec: CurveOptions) -> dict[Removal, float]:
    """The percent of heads of each removal, if a figure shows removals with several units.

    Empty if one unit is enough, or if the percent of a removal is unknown.
    """
    where = {axis: value for axis, value in spec.where.items() if axis not in BY_LANGUAGE}
    pruned = (cell for cell in study.cells if cell.state == "done" and not cell.unpruned)
    cells = [cell for cell in pruned if matches(cell, "", where)]
    units = set(map(removal_unit, {str(cell.axes.get("strategy")) for cell in cells}))
    if spec.x not in ("remove", "amount") or len(units) < 2:
        return {}
    percents: dict[Removal, float] = {}
    for cell in cells:
        if removal_unit(str(cell.axes.get("strategy"))) == PERCENT.axis:
            percents[_removal(cell)] = float(cell.axes["amount"])
        elif (share := study.share(cell)) is not None:
            percents[_removal(cell)] = round(share, 1)
    return percents if all(_removal(cell) in percents for cell in cells) else {}


def _removal(cell: Cell) -> Removal:
    return cell.axes.get("model"), cell.axes.get("remove")


def gather_curve(study: Study, spec: CurveOptions, percents: Mapping[Removal, float]) -> Points:
    """The values of a figure; every line of removals starts at the unpruned model."""
    value = spec.values(study, spec.value)
    separate = bool(BY_LANGUAGE & {spec.x, spec.lines, *spec.panels, *spec.mean_over, *spec.where})
    axes = (spec.x, spec.lines, *spec.panels, *spec.where, "remove", "strategy", "amount")
    points: Points = {}
    starts: list[tuple[str, Start]] = []
    for cells in group_cells(study.cells, (*axes, "model") if percents else axes):
        first = cells[0]
        for language, group, scores in _values(cells, spec, value, separate):
            panel = joined(
                *(first.axis(name, language) for name in spec.panels), group if spec.lines else ""
            )
            labels = repetitions(cells, language, spec.mean_over)
            if percents:
                labels = [(first.axes.get("remove"), label) for label in labels]
            group_is_line = bool(group) and not spec.lines
            removal_is_line = spec.lines_are_removals and not group_is_line
            if spec.by_removal and first.unpruned and removal_is_line:
                starts.append((panel, (cells, language, labels, scores)))
                continue
            line = group if group_is_line else _line(first, spec, language)
            x = _x(first, spec, language, percents)
            points.setdefault((panel, line, x), Mean()).add(cells, language, labels, scores)
    _add_starts(points, starts)
    return points


def _line(cell: Cell, spec: CurveOptions, language: str) -> str:
    if not spec.lines_are_removals:
        return joined(cell.axis(spec.lines, language))
    return position(cell)[0] if spec.by_removal else str(cell.axes.get("remove", ""))


def _x(
    cell: Cell, spec: CurveOptions, language: str, percents: Mapping[Removal, float]
) -> float | str:
    if spec.by_removal:
        _, x = position(cell)
        return x if cell.unpruned else percents.get(_removal(cell), x)
    value = cell.axis(spec.x, language)
    if value is None and spec.x in PARTS:
        return ALL_PARTS
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else str(value)


def _values(
    cells: Sequence[Cell], spec: CurveOptions, value: ValuesOf, separate: bool
) -> Iterator[tuple[str, str, Sequence[float | None]]]:
    """Languages of cells that are alike, each with its class and the value of every cell.

    If languages are not separate, one language stands for all of its class.
    """
    first = cells[0]
    where = spec.where
    if first.unpruned:
        where = {a: v for a, v in where.items() if a not in ("remove", "strategy")}
    rows = [_scores(cell, value, spec.group, separate) for cell in cells]
    members = _members(first.languages, spec.group, separate)
    for (language, group), scores in zip(members, zip(*rows, strict=True), strict=True):
        if matches(first, language, where):
            yield language, group, scores


def _scores(cell: Cell, value: ValuesOf, group: str, separate: bool) -> Sequence[float | None]:
    """The values of a cell, one for each of `_members`: of a language, or the mean of a class."""
    values = value(cell, None, None)
    if separate and not group:
        return values
    by_language = dict(zip(cell.languages, values, strict=True))
    if separate:
        return [by_language[language] for language, _ in _members(cell.languages, group, separate)]
    classes: dict[str, list[float]] = {}
    for language, name in _classes(cell.languages, group):
        scores = classes.setdefault(name, [])
        if (score := by_language[language]) is not None:
            scores.append(score)
    return [fmean(scores) if scores else None for scores in classes.values()]


@cache
def _members(names: tuple[str, ...], group: str, separate: bool) -> tuple[tuple[str, str], ...]:
    """Each language with its class if languages are separate, else each class once."""
    members = _classes(names, group)
    if separate:
        return members
    return tuple((names[0], name) for name in dict.fromkeys(name for _, name in members))


@cache
def _classes(names: tuple[str, ...], group: str) -> tuple[tuple[str, str], ...]:
    """Languages with their class; languages whose class is unknown are left out."""
    members = [(language, class_of(language, group) if group else "") for language in names]
    return tuple((language, name) for language, name in members if name or not group)


def class_of(language: str, group: str) -> str:
    """The word order, resources or family of a language; empty if unknown."""
    code = code_of(language)
    return str(getattr(languages()[code], group, "")) if code else ""


def _add_starts(points: Points, starts: Sequence[tuple[str, Start]]) -> None:
    """Start every line of a panel at the unpruned model; a single point is not a line."""
    counts: dict[Any, dict[str, int]] = {}
    for panel, line, _ in points:
        lines = counts.setdefault(panel, {})
        lines[line] = lines.get(line, 0) + 1
    for panel, start in starts:
        lines = counts.get(panel, {})
        for line in [line for line, n in lines.items() if n > 1] or lines or [""]:
            points.setdefault((panel, line, 0.0), Mean()).add(*start)
