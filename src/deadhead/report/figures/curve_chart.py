"""Curves: their options, their values gathered by panel, line and x, and the chart of these.

Published numbers stand beside ours where there are some.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from deadhead.report.labels import joined, removal_unit, score_axis
from deadhead.report.spec import Chart, Figure, Scored, axes, axis, word
from deadhead.report.tables.published import Published
from deadhead.results import Mean, Study
from deadhead.results.cells import Key, selects
from deadhead.results.means import BY_LANGUAGE
from deadhead.results.records import is_number
from deadhead.strategies.amounts import PERCENT
from deadhead.studies.fields import Problem
from deadhead.tasks.languages import code_of, languages

from .charts import Datum, curves, point

GROUPS = ("word_order", "resource", "family")  # classes of languages
REMOVALS = ("remove", "amount", "percent")  # values of x that stand for what is removed
PARTS = ("parts", "data.parts", "data.target_parts")
ALL_PARTS = 10.0  # of a training set
Points = dict[tuple[Any, Any, Any], Mean]  # by panel, line and x
REMOVAL = ("strategy", "amount", "remove")  # axes that say what is removed
X_WORDS = {
    "percent": PERCENT.axis,
    "parts": "tenths of the training set",
    "data.parts": "tenths of the training set",
    "data.target_parts": "tenths of the target's training set",
}
LEGENDS = {"word_order": "word order", "strategy": "removed", "remove": "removed"}
PublishedPoint = Callable[[Any, Any, Mean], float | None]


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


@cache
def position(strategy: Any, amount: Any, label: Any) -> tuple[str, float | str]:
    """The line of a removal, and how far along it; a removal that has no number keeps its label."""
    if strategy in (None, "none"):
        return "", 0.0
    if is_number(amount):
        return strategy, float(amount)
    words, numbers = re.findall(r"[a-z]+", str(amount)), re.findall(r"\d+", str(amount))
    if strategy == "layers" and words and len(words) == len(numbers):
        return " + ".join(words), float(sum(map(int, numbers)))
    return strategy, label


def removal_percents(study: Study, spec: CurveOptions) -> dict[Key, float]:
    """The percent of heads of each removal, if a figure shows removals with several units.

    By model and removal; empty if one unit is enough, or if the percent of a removal is unknown.
    """
    if spec.x not in ("remove", "amount"):
        return {}
    where = {axis: value for axis, value in spec.where.items() if axis not in BY_LANGUAGE}
    means = study.means(("model", *REMOVAL), where)
    removals = {key: mean for key, mean in means.items() if mean.numbers and not mean.unpruned}
    if len({removal_unit(strategy) for _, strategy, *_ in removals}) < 2:
        return {}
    percents: dict[Key, float] = {}
    for (model, strategy, amount, label), mean in removals.items():
        if removal_unit(strategy) == PERCENT.axis:
            percents[model, label] = float(amount)
        elif (share := study.share(study.trials[mean.numbers[0].trial])) is not None:
            percents[model, label] = round(share, 1)
    return percents if len(percents) == len(removals) else {}


def gather_curve(study: Study, spec: CurveOptions, percents: Mapping[Key, float]) -> Points:
    """The values of a figure; every line of removals starts at the unpruned model."""
    axes = tuple(
        dict.fromkeys(
            filter(None, (*REMOVAL, "model", "language", spec.x, spec.lines, *spec.panels))
        )
    )
    points: Points = {}
    starts: list[tuple[str, Mean]] = []
    removal = {a: v for a, v in spec.where.items() if a in ("remove", "strategy")}
    others = {a: v for a, v in spec.where.items() if a not in removal}
    means = spec.means(study, axes, others, spec.mean_over, kind=spec.value)
    for key, mean in means.items():
        labels = dict(zip(axes, key, strict=True))
        group = class_of(labels["language"], spec.group) if spec.group else ""
        selected = mean.unpruned or selects(removal, labels.__getitem__)
        if not selected or (spec.group and not group):
            continue
        panel = joined(*(labels[name] for name in spec.panels), group if spec.lines else "")
        if percents:
            mean.numbers = [
                one._replace(repetition=(labels["remove"], one.repetition)) for one in mean.numbers
            ]
        group_is_line = bool(group) and not spec.lines
        if spec.by_removal and mean.unpruned and spec.lines_are_removals and not group_is_line:
            starts.append((panel, mean))
            continue
        line = group if group_is_line else _line(labels, spec)
        points.setdefault((panel, line, _x(labels, spec, percents)), Mean()).extend(mean)
    _add_starts(points, starts)
    return points


def _line(labels: Mapping[str, Any], spec: CurveOptions) -> str:
    if not spec.lines_are_removals:
        return joined(labels[spec.lines])
    if not spec.by_removal:
        return str(labels["remove"] or "")
    return position(*(labels[axis] for axis in REMOVAL))[0]


def _x(labels: Mapping[str, Any], spec: CurveOptions, percents: Mapping[Key, float]) -> float | str:
    if spec.by_removal:
        _, x = position(*(labels[axis] for axis in REMOVAL))
        return percents.get((labels["model"], labels["remove"]), x)
    return number_or_label(spec.x, labels[spec.x])


def number_or_label(axis: str, value: Any) -> float | str:
    """How far along an axis a label is; one that is no number stays a label."""
    if value is None and axis in PARTS:
        return ALL_PARTS
    return float(value) if is_number(value) else str(value)


def class_of(language: str, group: str) -> str:
    """The word order, resources or family of a language; empty if unknown."""
    code = code_of(language)
    return str(getattr(languages()[code], group, "")) if code else ""


def _add_starts(points: Points, starts: Sequence[tuple[str, Mean]]) -> None:
    """Start every line of a panel at the unpruned model; a single point is not a line."""
    counts: dict[Any, dict[str, int]] = {}
    for panel, line, _ in points:
        lines = counts.setdefault(panel, {})
        lines[line] = lines.get(line, 0) + 1
    for panel, start in starts:
        lines = counts.get(panel, {})
        for line in [line for line, n in lines.items() if n > 1] or lines or [""]:
            points.setdefault((panel, line, 0.0), Mean()).extend(start)


def curve_chart(
    study: Study, spec: CurveOptions, points: Points, line_names: Mapping[str, str] | None = None
) -> Chart:
    """The chart of gathered values; `line_names` are names of lines in words."""
    numbers = all(isinstance(x, float) for _, _, x in points)
    rows = list(_rows(study, spec, points, line_names or {}))
    if numbers:
        rows.sort(key=lambda row: row["x"])
    lines = in_order(study, spec.lines, [row["line"] for row in rows])
    if spec.group and not spec.lines:
        classes = (class_of(language, spec.group) for language in study.languages)
        lines = list(dict.fromkeys(filter(None, classes)))
    legend = spec.lines or spec.group
    return curves(
        rows,
        spec.heading,
        x=_x_words(study, spec),
        y="relative drop, %" if spec.value == "drop" else score_axis(spec.metrics(study)),
        order=[] if numbers else list(dict.fromkeys(str(x) for _, _, x in points)),
        lines=lines,
        panels=panels_in_order(study, spec, rows),
        line=LEGENDS.get(legend, legend),
    )


def panels_in_order(study: Study, spec: CurveOptions, rows: Sequence[Datum]) -> list[str]:
    axis = spec.panels[0] if len(spec.panels) == 1 else ""
    return in_order(study, axis, [row["panel"] for row in rows])


def in_order(study: Study, axis: str, labels: list[str]) -> list[str]:
    """Labels in the order of the recipe."""
    order = [str(label) for label in study.labels(axis)] if axis else []
    positions = {label: i for i, label in enumerate(order)}
    return sorted(dict.fromkeys(labels), key=lambda label: positions.get(label, len(order)))


def _x_words(study: Study, spec: CurveOptions) -> str:
    if spec.x not in ("remove", "amount"):
        return X_WORDS.get(spec.x, spec.x)
    only = spec.where.get("strategy")
    strategies = {name for name in study.labels("strategy") if name not in (None, "none")}
    strategies &= {*([only] if isinstance(only, str) else only)} if only else strategies
    units = {removal_unit(strategy) for strategy in strategies}
    return units.pop() if len(units) == 1 else "removed"


def _rows(
    study: Study, spec: CurveOptions, points: Points, line_names: Mapping[str, str]
) -> Iterator[Datum]:
    published_point = _published(study, spec)
    for (panel, line, x), mean in points.items():
        numbers = mean.repeats
        published = published_point(panel, line, mean) if published_point else None
        if not numbers and published is None:
            continue
        row: Datum = {"x": x, "line": line_names.get(str(line), str(line)), "panel": str(panel)}
        row |= point(numbers)
        if published is not None:
            row["published"] = round(published, 3)
        if spec.x == "percent":
            removals = len(mean.labels("remove"))
            row |= {"removals": removals} if removals > 1 else {}
        yield row


def _published(study: Study, spec: CurveOptions) -> PublishedPoint | None:
    """A function to the published number of a point, from the first file that the recipe names."""
    file = study.published_rows(next(iter(study.published), ""))
    if not file or spec.value == "drop" or spec.group or spec.x == "percent":
        return None
    axes = (spec.x, spec.lines, *spec.panels, *spec.where)
    names = ("remove" if axis == "amount" else axis for axis in axes if axis)
    published = Published(file, names)
    if "remove" not in published.columns and spec.x in ("remove", "amount"):
        return None

    def published_at(panel: Any, line: Any, mean: Mean) -> float | None:
        shared, labels = mean.shared_labels(), dict(spec.where)
        if "remove" not in shared:
            return None
        if spec.lines:
            labels[spec.lines] = line
        parts = str(panel).split(", ")
        if len(parts) == len(spec.panels):
            labels |= dict(zip(spec.panels, parts, strict=True))
        return published.value({**labels, "remove": shared["remove"]}, mean)

    return published_at
