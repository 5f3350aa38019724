"""Figures of kind `cost`: the score against the parameters that are left."""

from dataclasses import dataclass
from statistics import fmean

from deadhead.report.labels import joined, score_axis, strategy_words
from deadhead.report.spec import Chart, Figure, Scored, Suggested
from deadhead.results import Study

from .charts import MIDDLE, Datum, categories, distinct, field, panelled, tip, whole

MILLION = 1e6
FRONT = {"type": "line", "interpolate": "step-after", "strokeDash": [4, 3], "color": MIDDLE}
POINT = {"type": "point", "filled": True, "size": 60, "opacity": 0.85}
Removals = dict[tuple[str, str, str], list[tuple[float, float]]]  # (panel, group, label) -> trials


@dataclass(frozen=True, kw_only=True)
class Cost(Scored, Figure):
    """Each removal as a point: mean score over trials and languages, and the parameters left."""

    kind = "cost"
    default_title = "Cost against score"
    help = "Dashed: the points that no other beats in both. `deadhead bench` measures latency."

    def draw(self, study: Study) -> Chart | None:
        rows = [_row(key, trials) for key, trials in self._trials(study).items() if trials]
        if len({row["cost"] for row in rows}) < 2:
            return None
        panels = distinct(rows, "panel")
        for panel in panels:
            mark_front([row for row in rows if row["panel"] == panel])
        cost = "parameters, millions"
        score = f"mean {score_axis(study.metrics)}"
        positions = {
            "x": field("cost", "Q", cost, scale={"zero": False}),
            "y": field("y", "Q", score, scale={"zero": False}),
        }
        groups = categories(distinct(rows, "group"))
        points = {
            **positions,
            "color": field("group", "N", "removed by", scale=groups),
            "tooltip": [
                tip("label", "N", "removed"),
                tip("y", "Q", score, ".2f"),
                tip("cost", "Q", cost, ".4~g"),
                tip("n", "Q", "trials"),
            ],
        }
        layers = [
            {"mark": FRONT, "encoding": positions, "transform": [{"filter": "datum.front"}]},
            {"mark": POINT, "encoding": points},
        ]
        return whole(panelled({"layer": layers}, panels, 280, "y"), rows, self.heading)

    def _trials(self, study: Study) -> Removals:
        """The mean score and the millions of parameters of each trial of a removal."""
        removals: Removals = {}
        panel_axes = [axis for axis in ("task", "model") if axis in study.axes]
        means = self.means(study, ("remove", "strategy", *panel_axes), self.where)
        for (remove, strategy, *labels), mean in means.items():
            group = "nothing" if mean.unpruned else strategy_words(str(strategy))
            key = (joined(*labels, by=" "), group, str(remove or "none"))
            for trial, scores in mean.by_repetition().items():
                parameters = study.trials[trial].parameters
                if parameters is not None:
                    point = fmean(scores.values()), parameters / MILLION
                    removals.setdefault(key, []).append(point)
        return removals

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        yield 70, cls()


def _row(key: tuple[str, str, str], trials: list[tuple[float, float]]) -> Datum:
    panel, group, label = key
    score, parameters = (fmean(values) for values in zip(*trials, strict=True))
    row = {"panel": panel, "group": group, "label": label, "n": len(trials)}
    return row | {"y": round(score, 3), "cost": round(parameters, 4)}


def mark_front(rows: list[Datum]) -> None:
    """Mark the rows that no other row beats in cost and score together."""
    best: float | None = None
    for row in sorted(rows, key=lambda row: (row["cost"], -row["y"])):
        row["front"] = best is None or row["y"] > best
        best = row["y"] if row["front"] else best
