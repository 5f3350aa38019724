"""Figures of kind `heads`: a value for each head, as squares of layer x head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from deadhead.layout import Head
from deadhead.report.head_values import (
    ENTROPY_CHANGE,
    RANKING,
    REMOVED,
    layout,
    map_measures,
    measured_in,
)
from deadhead.report.spec import Chart, Figure, Suggested, axis, choice
from deadhead.results import Study
from deadhead.results.from_record import ranking_of

from .charts import Row, distinct, head_maps
from .records import chosen, head_values, shows

MOST_PANELS = 12
MOST_REMOVALS = 9  # labels that make panels in a suggested figure


@dataclass(frozen=True, kw_only=True)
class Heads(Figure):
    """A ranking, a measure, or how often each head was removed."""

    kind: ClassVar[str] = "heads"

    show: str = choice(shows, required=True)
    panels: str = axis()

    @property
    def _is_change(self) -> bool:
        measure = map_measures().get(self.show)
        return self.show == ENTROPY_CHANGE or (measure is not None and measure.is_change)

    def explanation(self, chart: Chart) -> str:
        measure = map_measures().get(self.show)
        return measure.help if measure is not None else ""

    def heading(self, study: Study) -> str:
        return super().heading(study) if self.title else f"Heads: {self.show}"

    def draw(self, study: Study) -> Chart | None:
        maps: dict[str, list[Mapping[str, float]]] = {}  # panel -> maps that are averaged
        for cell, record in chosen(study, self.where):
            for panel, values in head_values(study, cell, record, self.show, self.panels):
                maps.setdefault(panel, []).append(values)
        every: list[str] = []
        if self.show == REMOVED:
            maps = {panel: of_panel for panel, of_panel in maps.items() if any(of_panel)}
            every = all_heads(layout(study))
        panels = list(maps)[:MOST_PANELS]
        rows = [row for panel in panels for row in _rows(panel, maps[panel], every)]
        if not rows:
            return None
        blocks = distinct(rows, "block")
        if len(blocks) > 1:
            rows = [{**row, "panel": f"{row['panel']} {row['block']}".strip()} for row in rows]
            panels = [f"{panel} {block}".strip() for panel in panels for block in blocks]
        return head_maps(
            rows,
            self.heading(study) + cut_note(len(maps), MOST_PANELS),
            panels=panels,
            legend=shows()[self.show],
            scheme="cividis" if self._is_change else "viridis",
        )

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        if any(ranking_of(record) for record in study.records.values()):
            yield 10, cls(title="Ranking of heads", show=RANKING)
        for name, measure in measured_in(study).items():
            for show, head_map in measure.maps(name).items():
                yield 30, cls(title=head_map.label, show=show)
        if any(record.removed for record in study.records.values()):
            few = "remove" in study.axes and len(study.labels("remove")) <= MOST_REMOVALS
            title = "Heads removed, share of trials"
            yield 30, cls(title=title, show=REMOVED, panels="remove" if few else "")


def cut_note(panels: int, most: int) -> str:
    """What a title says about panels that are not drawn."""
    return f" (the first {most} of {panels})" if panels > most else ""


def all_heads(shape: Mapping[str, Sequence[int]]) -> list[str]:
    return [
        f"{block}.{layer}.{index}"
        for block, sizes in shape.items()
        for layer, size in enumerate(sizes)
        for index in range(size)
    ]


def _rows(panel: str, maps: list[Mapping[str, float]], every: list[str]) -> Iterator[Row]:
    """Means over the maps of a panel.

    A head that is not in a map was not there. In maps of removals (of `every` head) it was kept.
    """
    for name in every or sorted({head for values in maps for head in values}, key=Head.parse):
        head = Head.parse(name)
        known = [values.get(name, 0.0 if every else None) for values in maps]
        values = [value for value in known if value is not None]
        if values:
            row = {"block": head.block, "layer": head.layer, "index": head.index, "head": name}
            yield {**row, "value": round(fmean(values), 6), "panel": panel}
