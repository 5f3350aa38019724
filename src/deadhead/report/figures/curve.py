"""Figures of kind `curve`: the score as more heads are removed, as data grows, or over k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deadhead.report.labels import removal_unit
from deadhead.report.spec import Chart, Suggested
from deadhead.results import Study
from deadhead.results.cells import CHANCE

from .charts import has_published
from .curve_chart import (
    REMOVAL,
    CurveOptions,
    curve_chart,
    gather_curve,
    position,
    removal_percents,
)
from .search_curve import best_curve, panel_of, search_curve

MOST_LINES = 8
MOST_PANELS = 12


class Curve(CurveOptions):
    """Lines of means with bands; searches show one line for each arm."""

    kind = "curve"

    def draw(self, study: Study) -> Chart | None:
        if study.is_search:
            over_k = self.x in ("k", "remove", "amount")
            return search_curve(study, self) if over_k else best_curve(study, self)
        spec = self._with_one_unit(study)
        percents = removal_percents(study, spec)
        if percents:
            spec = replace(spec, x="percent")
        means = gather_curve(study, spec, percents)
        if not any(mean.numbers for mean in means.values()):
            return None
        return curve_chart(study, spec, means)

    def _with_one_unit(self, study: Study) -> Curve:
        """Percent and layers cannot share an axis: show the removals counted like the first.

        This matters only if the lines are not the removals themselves.
        """
        one_by_one = self.lines in ("remove", "strategy") or not (self.lines or self.group)
        chosen = {"strategy", "remove", "amount"} & {*self.where}
        if one_by_one or chosen or self.x not in ("remove", "amount"):
            return self
        strategies = [name for name in study.labels("strategy") if name not in (None, "none")]
        same = [s for s in strategies if removal_unit(s) == removal_unit(strategies[0])]
        return self if same == strategies else replace(self, where={**self.where, "strategy": same})

    def explanation(self, chart: Chart) -> str:
        if self.x == "k":
            return ""
        text = "Points are means, bands one standard deviation over repetitions"
        if any("data" in layer for layer in chart.get("spec", {}).get("layer", ())):
            text += "; the other lines in grey"
        text += ", hollow points published numbers." if has_published(chart) else "."
        if any("removals" in row for row in chart["data"]["values"]):
            text += " Removals of the same percent are one point."
        return text

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        if study.is_search:
            panels = tuple(_search_panels(study))
            yield 0, cls(title="Score by heads removed, for each arm", x="k", panels=panels)
            return
        yield from ((0, curve) for curve in _by_removal(study))
        lines, panel = _lines_and_panel(study)
        for axis_name in ("data.target_parts", "data.parts"):
            if axis_name in study.axes:
                title, panels = "Score by size of the training set", _names(panel or lines)
                yield 0, cls(title=title, x=axis_name, lines="remove", panels=panels)


def _names(axis_name: str) -> tuple[str, ...]:
    return (axis_name,) if axis_name else ()


def _search_panels(study: Study) -> list[str]:
    """The axes of panels, without those at the end that would make too many panels."""
    names: list[str] = [name for name in ("model", "task", "source") if name in study.axes]
    if len(study.labels("learnt")) > len(study.labels("source")):
        names.append("train")
    names.append("language")
    while names and len(_panels(study, tuple(names))) > MOST_PANELS:
        names.pop()
    return names


def _panels(study: Study, names: tuple[str, ...]) -> set[str]:
    axes = (*names, "learnt", "language")
    return {panel_of(dict(zip(axes, key, strict=True)), names) for key in study.combinations(*axes)}


def _by_removal(study: Study) -> Iterator[Curve]:
    """A curve for each unit of removals: percent, heads and layers cannot share an axis."""
    lines, panel = _lines_and_panel(study)
    by_unit: dict[str, dict[str, set[Any]]] = {}  # unit -> strategy -> (line, x) of its removals
    for strategy, *labels in study.combinations(*REMOVAL):
        if strategy not in (None, "none"):
            by_strategy = by_unit.setdefault(removal_unit(strategy), {})
            by_strategy.setdefault(strategy, set()).add(position(strategy, *labels))
    for unit, by_strategy in by_unit.items():
        all_places = set().union(*by_strategy.values())
        if len({x for _, x in all_places}) < 2:
            continue
        where = {"strategy": list(by_strategy)} if len(by_unit) > 1 else {}
        curve = Curve(title=f"Score by {unit}", x="remove", where=where)
        if len({line for line, _ in all_places}) < 2:
            yield replace(curve, lines=lines, panels=_names(panel))
        else:
            yield replace(curve, panels=_names(panel or lines))


def _lines_and_panel(study: Study) -> tuple[str, str]:
    """Languages are lines if they are few, else tasks are; what is left makes panels."""
    varied: list[str] = [name for name in ("task", "model", "source") if name in study.axes]
    varied = [n for n in varied if n not in CHANCE and len(study.labels(n)) <= MOST_PANELS]
    varied += ["", ""]
    if 1 < len(study.languages) <= MOST_LINES:
        return "language", varied[0]
    if len(study.languages) > MOST_LINES:
        return varied[0], "language" if len(study.languages) <= MOST_PANELS else ""
    return varied[0], varied[1]
