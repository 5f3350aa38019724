"""Figures of kind `similarity`: how alike the rankings of every two languages are."""

from dataclasses import dataclass
from math import isnan

from deadhead.report.spec import Chart, Figure, Suggested, axis
from deadhead.results import Study
from deadhead.results.heads import by_language
from deadhead.results.statistics import ranking_rho

from .charts import distinct, facets, field, tip, whole
from .heads import panel_label

NUMBER = 30  # pixels of a square that has room for its number
RHO = "Spearman's rho"


@dataclass(frozen=True, kw_only=True)
class Similarity(Figure):
    """Spearman's rho between the rankings of every two languages."""

    kind = "similarity"
    default_title = "Likeness of rankings"
    help = "1: the same order of heads; 0: no relation."

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
        order = list(
            dict.fromkeys(name for name in (*study.languages, *languages) if name in languages)
        )
        positions = {
            "x": field("a", "N", "", sort=order, axis={"labelAngle": 0, "labelOverlap": True}),
            "y": field("b", "N", "", sort=order, axis={"labelOverlap": True}),
        }
        dark_is_high = {"scheme": "cividis", "domain": [-1, 1], "reverse": True}
        square = {
            **positions,
            "color": field("value", "Q", RHO, scale=dark_is_high),
            "tooltip": [
                tip("a", "N", "one"),
                tip("b", "N", "other"),
                tip("value", "Q", RHO, ".3f"),
            ],
        }
        # The ink is for the square, not for the page.
        ink = {"condition": {"test": "datum.value < 0", "value": "#1a1a1a"}, "value": "#f5f5f5"}
        number = {**positions, "text": field("value", "Q", format=".2f"), "color": ink}
        side = (34 if len(order) <= 12 else NUMBER) * len(order)
        chart = {
            "layer": [
                {"mark": "rect", "encoding": square},
                {"mark": {"type": "text", "fontSize": 10}, "encoding": number},
            ],
            "width": side,
            "height": side,
        }
        whole_chart = whole(facets(chart, panels, 2), rows, self.heading)
        return {**whole_chart, "usermeta": {"least": NUMBER * len(order)}}

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        rankings = [trial.ranking for trial in study.opened.values()]
        if len({r.language for r in rankings if r and len(r.languages) == 1}) > 1:
            panels = next((axis for axis in ("task", "model") if axis in study.axes), "")
            yield 20, cls(title="How alike the rankings of languages are", panels=panels)
