"""The options of figures of kind `curve`, and their values, gathered by panel, line and x."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from deadhead.report.labels import joined, removal_unit
from deadhead.report.spec import Figure, Scored, axes, axis, word
from deadhead.results import Mean, Study
from deadhead.results.cells import Key, selects
from deadhead.results.means import BY_LANGUAGE
from deadhead.strategies.amounts import PERCENT
from deadhead.studies.fields import Problem
from deadhead.tasks.languages import code_of, languages

GROUPS = ("word_order", "resource", "family")  # classes of languages
REMOVALS = ("remove", "amount", "percent")  # values of x that stand for what is removed
PARTS = ("parts", "data.parts", "data.target_parts")
ALL_PARTS = 10.0  # of a training set
Points = dict[tuple[Any, Any, Any], Mean]  # by panel, line and x
REMOVAL = ("strategy", "amount", "remove")  # axes that say what is removed


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
    if isinstance(amount, int | float) and not isinstance(amount, bool):
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
    removals = {key: mean for key, mean in means.items() if mean.values and not mean.unpruned}
    if len({removal_unit(strategy) for _, strategy, *_ in removals}) < 2:
        return {}
    percents: dict[Key, float] = {}
    for (model, strategy, amount, label), mean in removals.items():
        if removal_unit(strategy) == PERCENT.axis:
            percents[model, label] = float(amount)
        elif (share := study.share(study.trials[mean.trials[0]])) is not None:
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
    pruned_where = {a: v for a, v in spec.where.items() if a not in ("remove", "strategy")}
    means = spec.means(study, axes, pruned_where, spec.mean_over, kind=spec.value)
    for key, mean in means.items():
        labels = dict(zip(axes, key, strict=True))
        group = class_of(labels["language"], spec.group) if spec.group else ""
        if (spec.group and not group) or not (mean.unpruned or _shown(labels, spec.where)):
            continue
        panel = joined(*(labels[name] for name in spec.panels), group if spec.lines else "")
        if percents:
            mean.repetition_of = [(labels["remove"], label) for label in mean.repetition_of]
        group_is_line = bool(group) and not spec.lines
        if spec.by_removal and mean.unpruned and spec.lines_are_removals and not group_is_line:
            starts.append((panel, mean))
            continue
        line = group if group_is_line else _line(labels, spec)
        points.setdefault((panel, line, _x(labels, spec, percents)), Mean()).extend(mean)
    _add_starts(points, starts)
    return points


def _shown(labels: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether `where` selects the removal."""
    removal = {axis: value for axis, value in where.items() if axis in ("remove", "strategy")}
    return selects(removal, labels.__getitem__)


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
    value = labels[spec.x]
    if value is None and spec.x in PARTS:
        return ALL_PARTS
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else str(value)


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
