"""Figures of kind `points`: sentences of all languages as points, before and after training."""

from dataclasses import dataclass
from typing import ClassVar

from deadhead.measures import MEASURES, Measure
from deadhead.report.labels import STAGES, joined
from deadhead.report.spec import Chart, Figure, Suggested
from deadhead.results import Study

from .charts import Datum, clouds, distinct
from .heads import cut_note

MOST_PANELS = 6
MOST_POINTS = 150  # of a language


@dataclass(frozen=True, kw_only=True)
class Points(Figure):
    """Sentence embeddings in two dimensions, a colour for each language."""

    kind: ClassVar[str] = "points"
    default_title: ClassVar[str] = "Sentences by language"

    def draw(self, study: Study) -> Chart | None:
        rows: list[Datum] = []
        panels: dict[str, None] = {}
        stages = (
            (trial.cell, stage, measured.get(name, {}))
            for trial in study.chosen(self.where)
            for stage, measured in trial.measures.items()
            for name in _measures()
        )
        for cell, stage, values in stages:
            removal = cell.axes.get("remove") if "remove" in study.axes else ""
            silhouette, points = values.get("silhouette"), values.get("points")
            text = f"silhouette {silhouette:.2f}" if isinstance(silhouette, float) else ""
            panel = joined(STAGES[stage], removal, text)
            if not isinstance(points, dict) or panel in panels:
                continue
            panels[panel] = None
            for language, of_language in points.items() if len(panels) <= MOST_PANELS else ():
                step = max(1, -(-len(of_language) // MOST_POINTS))
                labels = {"group": language, "panel": panel}
                rows += [{"x": x, "y": y, **labels} for x, y in of_language[::step]]
        if not rows:
            return None
        return clouds(
            rows,
            self.heading + cut_note(len(panels), MOST_PANELS),
            groups=distinct(rows, "group"),
            panels=list(panels)[:MOST_PANELS],
            group="language",
        )

    def explanation(self, chart: Chart) -> str:
        return joined(*(measure.help for measure in _measures().values()), by=" ")

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        if _measures().keys() & study.heads.measures.keys():
            yield 40, cls()


def _measures() -> dict[str, type[Measure]]:
    """The measures with points for each language."""
    return {name: measure for name, measure in MEASURES.items() if measure.drawn_as == "points"}
