"""Figures of kind `gains`: what pruning gains between two languages, against how close they are."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from deadhead.errors import DeadheadError
from deadhead.report.labels import joined
from deadhead.report.spec import Chart, Figure
from deadhead.report.tables.pairs import selected
from deadhead.results import Search, Study
from deadhead.results.heads import by_language
from deadhead.results.statistics import similarity, spearman
from deadhead.tasks.distances import distances

from .charts import Datum, categories, distinct, field, panelled, tip, whole

DISTANCE = "syntactic"  # one of URIEL's distances
FEWEST_HEADS = 3  # that two rankings must share to be compared
FEWEST_PAIRS = 3  # pairs of languages in a panel
Rankings = Mapping[str, Mapping[str, float]]  # by language


class Gains(Figure):
    """A point for each pair of languages; a panel for their distance, one for their rankings."""

    kind = "gains"
    default_title = "What gains go with"
    help = (
        "A point for each pair of languages and search; the gain is that of the best pruning "
        "by test score. rho is Spearman's."
    )

    def draw(self, study: Study) -> Chart | None:
        rankings = by_language([*study.chosen()][::-1], lambda _, one: (one.model, one.task))
        panels: dict[str, list[Datum]] = {}
        varied = [a for a in ("task", "model") if len({getattr(p, a) for p in study.pairs}) > 1]
        for words, x_of in X_AXES.items():
            for pair in selected(study.pairs, self.where):
                x = x_of(pair, rankings.get((pair.model, pair.task), {}))
                if x is not None and isfinite(x):
                    labels = (getattr(pair, axis) for axis in varied)
                    name = f"{pair.source} to {pair.target}"
                    row = {
                        "x": round(x, 4),
                        "y": round(pair.gain(), 3),
                        "pair": name,
                        "group": pair.source,
                    }
                    panels.setdefault(joined(words, pair.setting, *labels), []).append(row)
        rows = [
            {**row, "panel": joined(name, _correlation(points))}
            for name, points in panels.items()
            if len(points) >= FEWEST_PAIRS
            for row in points
        ]
        return _chart(rows, self.heading) if rows else None


def _distance(pair: Search, rankings: Rankings) -> float | None:
    try:
        return distances(pair.source, pair.target, [DISTANCE])[DISTANCE]
    except DeadheadError:  # URIEL does not know the language, or its package is not installed
        return None


def _likeness(pair: Search, rankings: Rankings) -> float | None:
    both = {name: rankings[name] for name in (pair.source, pair.target) if name in rankings}
    if len(both) < 2 or len(both[pair.source].keys() & both[pair.target].keys()) < FEWEST_HEADS:
        return None
    return similarity(both)[pair.source, pair.target].rho


X_AXES: Mapping[str, Callable[[Search, Rankings], float | None]] = {
    "URIEL distance": _distance,
    "likeness of rankings": _likeness,
}


def _correlation(rows: Sequence[Datum]) -> str:
    """One label, without the commas at which the name of a panel begins a new line."""
    rho = spearman([row["x"] for row in rows], [row["y"] for row in rows])
    return f"rho {rho.rho:+.2f}; p {rho.p:.2g}; n {rho.n}"


def _chart(rows: Sequence[Datum], title: str) -> Chart:
    panels = distinct(rows, "panel")
    encoding = {
        "x": field("x", "Q", panels[0] if len(panels) == 1 else "", scale={"zero": False}),
        "y": field("y", "Q", "gain, points"),
        "color": field("group", "N", "source", scale=categories(distinct(rows, "group"))),
        "tooltip": [
            tip("pair", "N", "pair"),
            tip("x", "Q", "x", ".3f"),
            tip("y", "Q", "gain", ".2f"),
        ],
    }
    points = {"mark": {"type": "point", "filled": True, "size": 46}, "encoding": encoding}
    return whole(panelled(points, panels, 300, "x"), rows, title)
