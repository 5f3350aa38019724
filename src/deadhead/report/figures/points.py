"""Figures of kind `points`: sentences of all languages as points, before and after training."""

from deadhead.measures import MEASURES, Measure
from deadhead.report.labels import STAGES, joined
from deadhead.report.spec import Chart, Figure, Suggested
from deadhead.results import Study

from .charts import COLOURS, Datum, categories, distinct, field, panelled, tip, whole
from .heads import cut_note

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
POINT = {"type": "point", "filled": True, "size": 14, "opacity": 0.7}
MOST_PANELS = 6
MOST_POINTS = 150  # of a language


class Points(Figure):
    """Sentence embeddings in two dimensions, a colour for each language."""

    kind = "points"
    default_title = "Sentences by language"

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
        languages = distinct(rows, "group")
        shapes = [SHAPES[i // len(COLOURS) % len(SHAPES)] for i in range(len(languages))]
        encoding = {  # t-SNE gives no axes
            **{name: field(name, "Q", axis=None, scale={"zero": False}) for name in ("x", "y")},
            "color": field("group", "N", "language", scale=categories(languages)),
            "shape": field("group", "N", "language", scale={"domain": languages, "range": shapes}),
            "tooltip": [tip("group", "N", "language")],
        }
        points = {"mark": POINT, "encoding": encoding}
        chart = panelled(points, list(panels)[:MOST_PANELS], 400, "x", "y")
        return whole(chart, rows, self.heading + cut_note(len(panels), MOST_PANELS))

    def explanation(self, chart: Chart) -> str:
        return joined(*(measure.help for measure in _measures().values()), by=" ")

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        if _measures().keys() & study.heads.measures.keys():
            yield 40, cls()


def _measures() -> dict[str, type[Measure]]:
    """The measures with points for each language."""
    return {name: measure for name, measure in MEASURES.items() if measure.drawn_as == "points"}
