"""Figures of kind `layers`: means over the heads of each layer."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from deadhead.report.spec import Chart, Figure, axis, choice
from deadhead.results import Study
from deadhead.results.statistics import layer_rows

from .charts import Row, curves
from .records import chosen, head_values, shows


@dataclass(frozen=True, kw_only=True)
class Layers(Figure):
    """What a figure of kind `heads` shows, averaged over layers; a line for each label."""

    kind: ClassVar[str] = "layers"
    help: ClassVar[str] = "Means over the heads of a layer that are left."

    show: str = choice(shows, "weights")
    lines: str = axis()

    def heading(self, study: Study) -> str:
        return super().heading(study) if self.title else f"Layers: {self.show}"

    def draw(self, study: Study) -> Chart | None:
        means: dict[tuple[str, str, int], list[float]] = {}
        for cell, record in chosen(study, self.where):
            for line, values in head_values(study, cell, record, self.show, self.lines):
                known = {head: value for head, value in values.items() if value is not None}
                for row in layer_rows(known):
                    key = (row["block"], line, row["layer"])
                    means.setdefault(key, []).append(row["value"])
        rows: list[Row] = [
            {"x": layer, "y": fmean(values), "line": line, "panel": block, "n": len(values)}
            for (block, line, layer), values in means.items()
        ]
        if not rows:
            return None
        return curves(
            rows, self.heading(study), x="layer", y=self.show.replace("_", " "), form=".4~g"
        )
