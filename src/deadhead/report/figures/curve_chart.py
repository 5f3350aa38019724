"""Gathered values of a curve as a chart, with published numbers where there are some."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deadhead.report.labels import removal_unit, score_words, unit_of
from deadhead.report.spec import Chart
from deadhead.report.tables.published import Published
from deadhead.results import Mean, Study
from deadhead.strategies.amounts import PERCENT

from .charts import Datum, curves, point
from .curve_means import CurveOptions, Points, class_of

X_WORDS = {
    "percent": PERCENT.axis,
    "parts": "tenths of the training set",
    "data.parts": "tenths of the training set",
    "data.target_parts": "tenths of the target's training set",
}
LEGENDS = {"word_order": "word order", "strategy": "removed", "remove": "removed"}
PublishedPoint = Callable[[Any, Any, Mean], float | None]


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
        y="relative drop, %" if spec.value == "drop" else score_axis(study, spec),
        numbers=numbers,
        order=list(dict.fromkeys(str(x) for _, _, x in points)),
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


def score_axis(study: Study, spec: CurveOptions) -> str:
    metrics = [*filter(None, spec.metrics(study))]
    return f"{score_words(metrics)}{unit_of(metrics, ', ')}"


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
    published = Published(file, tuple(dict.fromkeys(names)))
    if "remove" not in published.axes and spec.x in ("remove", "amount"):
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
