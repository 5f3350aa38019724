"""Figures of kind `similarity`: how alike the rankings of every two languages are."""

from dataclasses import dataclass
from math import isnan
from typing import ClassVar

from deadhead.report.spec import Chart, Figure, Suggested, axis
from deadhead.results import Study
from deadhead.results.heads import by_language
from deadhead.results.statistics import ranking_rho

from .charts import distinct, squares
from .heads import panel_label


@dataclass(frozen=True, kw_only=True)
class Similarity(Figure):
    """Spearman's rho between the rankings of every two languages."""

    kind: ClassVar[str] = "similarity"
    default_title: ClassVar[str] = "Likeness of rankings"
    help: ClassVar[str] = "1: the same order of heads; 0: no relation."

    panels: str = axis()

    def draw(self, study: Study) -> Chart | None:
        rankings = by_language(
            study.chosen(self.where), lambda cell, _: panel_label(cell, self.panels)
        )
        panels = [panel for panel, of_panel in rankings.items() if len(of_panel) > 1]
        rows = [
            {"a": a, "b": b, "value": round(rho, 4), "panel": panel}
            for panel in panels
            for a, scores in rankings[panel].items()
            for b, other in rankings[panel].items()
            if not isnan(rho := ranking_rho(scores, other))
        ]
        if not rows:
            return None
        languages = distinct(rows, "a")
        order = dict.fromkeys(
            language for language in (*study.languages, *languages) if language in languages
        )
        title, legend = self.heading, "Spearman's rho"
        return squares(rows, title, order=list(order), panels=panels, legend=legend)

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        rankings = [trial.ranking for trial in study.opened.values()]
        if len({r.language for r in rankings if r and len(r.languages) == 1}) > 1:
            panels = next((axis for axis in ("task", "model") if axis in study.axes), "")
            yield 20, cls(title="How alike the rankings of languages are", panels=panels)
