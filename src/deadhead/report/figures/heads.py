"""Figures of kind `heads`, a value for each head, and `layers`, the means over their layers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from deadhead.layout import Head
from deadhead.report.labels import STAGES, joined
from deadhead.report.spec import Chart, Figure, Suggested, axis, choice
from deadhead.results import Opened, Study
from deadhead.results.cells import Cell
from deadhead.results.records import map_measures
from deadhead.results.statistics import head_changes, layer_means

from .charts import BOLD, Datum, curves, distinct, facets, field, tip, whole

RANKING, REMOVED, ENTROPY_CHANGE = "ranking", "removed", "entropy_change"
LEGENDS = {
    RANKING: "score",
    REMOVED: "share of trials",
    ENTROPY_CHANGE: "|change| of entropy, nats",
}
MOST_PANELS = 12
MOST_REMOVALS = 9  # labels that make panels in a suggested figure


def shows() -> dict[str, str]:
    """What a figure of heads can show -> the title of its scale."""
    return LEGENDS | {name: measure.legend for name, measure in map_measures().items()}


def panel_label(cell: Cell, axis: str) -> str:
    """The label of a cell on an axis; a number comes with the name of the axis."""
    label = cell.axes.get(axis) if axis else ""
    return f"{axis} {label}" if isinstance(label, int | float) else joined(label)


def head_values(
    study: Study, trial: Opened, show: str, axis: str
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The values of a trial's heads, each map of them with the panel it belongs to."""
    panel = panel_label(trial.cell, axis)
    if show == RANKING:
        if trial.ranking is not None:
            name = panel or study.heads.ranking_name(trial)
            yield name, trial.ranking.scores
    elif show == REMOVED:
        yield panel, dict.fromkeys(trial.removed, 1.0)
    elif show == ENTROPY_CHANGE:
        if change := head_changes(*trial.before_and_later("entropy")):
            yield panel, change
    else:
        is_change = map_measures()[show].is_change
        for stage, maps in trial.maps.items():
            if maps.get(show) and (not is_change or stage == "after"):
                yield joined(panel, "" if is_change else STAGES[stage]), maps[show]


@dataclass(frozen=True, kw_only=True)
class Heads(Figure):
    """A ranking, a measure, or how often each head was removed."""

    kind = "heads"

    show: str = choice(shows, required=True)
    panels: str = axis()

    def explanation(self, chart: Chart) -> str:
        measure = map_measures().get(self.show)
        return measure.help if measure is not None else ""

    @property
    def heading(self) -> str:
        return self.title or f"Heads: {self.show}"

    def draw(self, study: Study) -> Chart | None:
        maps: dict[str, list[Mapping[str, float]]] = {}  # panel -> maps that are averaged
        for trial in study.chosen(self.where):
            for panel, values in head_values(study, trial, self.show, self.panels):
                maps.setdefault(panel, []).append(values)
        every: list[str] = []
        if self.show == REMOVED:
            maps = {panel: of_panel for panel, of_panel in maps.items() if any(of_panel)}
            every = study.heads.names
        panels = list(maps)[:MOST_PANELS]
        rows = [row for panel in panels for row in _rows(panel, maps[panel], every)]
        if not rows:
            return None
        blocks = distinct(rows, "block")
        most = MOST_PANELS // len(blocks)
        if len(blocks) > 1:
            panels = panels[:most]
            rows = [row for row in rows if row["panel"] in panels]
            rows = [{**row, "panel": joined(row["panel"], row["block"])} for row in rows]
            panels = [joined(panel, block) for panel in panels for block in blocks]
        chart = self._squares(rows, len(panels))
        columns = len(blocks) if len(blocks) > 1 else 4
        chart = facets(chart, panels, columns, {**BOLD, "labelLimit": 220})
        return whole(chart, rows, self.heading + cut_note(len(maps), most))

    def _squares(self, rows: Sequence[Datum], panels: int) -> Chart:
        """A square for each layer and head, the input at the bottom."""
        layers, heads = ({row[name] for row in rows} for name in ("layer", "index"))
        side = 22 if panels < 2 else 12 if len(heads) > 8 else 15
        measure, legend = map_measures().get(self.show), shows()[self.show]
        is_change = self.show == ENTROPY_CHANGE or (measure is not None and measure.is_change)
        scheme = {"scheme": "cividis" if is_change else "viridis"}
        return {
            "mark": {"type": "rect", "tooltip": True},
            "width": side * len(heads),
            "height": side * len(layers),
            "encoding": {
                "x": field("index", "O", "head", axis={"labelAngle": 0, "labelOverlap": True}),
                "y": field("layer", "O", "layer", sort="descending"),
                "color": field("value", "Q", legend, scale=scheme),
                "tooltip": [
                    tip("head", "N", "head"),
                    tip("value", "Q", legend, ".4~g"),
                    tip("panel", "N", "of"),
                ],
            },
        }

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        if any(trial.ranking for trial in study.opened.values()):
            yield 10, cls(title="Ranking of heads", show=RANKING)
        for name, measure in study.heads.measures.items():
            for show, head_map in measure.maps(name).items():
                yield 30, cls(title=head_map.label, show=show)
        if any(trial.removed for trial in study.opened.values()):
            few = "remove" in study.axes and len(study.labels("remove")) <= MOST_REMOVALS
            title = "Heads removed, share of trials"
            yield 30, cls(title=title, show=REMOVED, panels="remove" if few else "")


def cut_note(panels: int, most: int) -> str:
    """What a title says about panels that are not drawn."""
    return f" (the first {most} of {panels})" if panels > most else ""


def _rows(panel: str, maps: list[Mapping[str, float]], every: list[str]) -> Iterator[Datum]:
    """Means over the maps of a panel.

    A head that is not in a map was not there. In maps of removals (of `every` head) it was kept.
    """
    for name in every or sorted({head for values in maps for head in values}, key=Head.parse):
        head = Head.parse(name)
        of_maps = [values.get(name, 0.0 if every else None) for values in maps]
        values = [value for value in of_maps if value is not None]
        if values:
            row = {"block": head.block, "layer": head.layer, "index": head.index, "head": name}
            yield {**row, "value": round(fmean(values), 6), "panel": panel}


@dataclass(frozen=True, kw_only=True)
class Layers(Figure):
    """What a figure of kind `heads` shows, averaged over layers; a line for each label."""

    kind = "layers"
    help = "Means over the heads of a layer that are left."

    show: str = choice(shows, "weights")
    lines: str = axis()

    @property
    def heading(self) -> str:
        return self.title or f"Layers: {self.show}"

    def draw(self, study: Study) -> Chart | None:
        means: dict[tuple[str, str, int], list[float]] = {}
        for trial in study.chosen(self.where):
            for line, values in head_values(study, trial, self.show, self.lines):
                numbers = {head: value for head, value in values.items() if value is not None}
                for (block, layer), mean in layer_means(numbers).items():
                    means.setdefault((block, line, layer), []).append(mean)
        rows: list[Datum] = [
            {"x": layer, "y": fmean(values), "line": line, "panel": block, "n": len(values)}
            for (block, line, layer), values in means.items()
        ]
        if not rows:
            return None
        return curves(rows, self.heading, x="layer", y=self.show.replace("_", " "), form=".4~g")
