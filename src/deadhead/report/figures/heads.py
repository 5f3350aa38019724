"""Figures of heads and languages: layer x head maps, likeness of rankings, sentences as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.layout import Head
from deadhead.report.labels import STAGES, joined
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, matches
from deadhead.results.from_record import by_stage, ranking_of
from deadhead.results.statistics import ranking_rho
from deadhead.studies.store.records import Record

from .charts import Row, Spec, head_maps, scatter, squares
from .head_maps import layout, ranking_name

MOST_PANELS = 12  # of maps
MOST_CLOUDS = 6  # panels of points
MOST_POINTS = 150  # of a language in a scatter
LEGENDS = {
    "ranking": "score",
    "entropy": "entropy, nats",
    "entropy_change": "|change| of entropy, nats",
}
LEGENDS |= {"weights": "mean |change|", "removed": "share of trials"}
CHANGES = ("weights", "entropy_change")  # maps of how far something moved
Maps = dict[str, list[Mapping[str, float]]]  # panel -> maps that are averaged


def chosen(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Iterator[tuple[Cell, Record]]:
    """The records a figure is of, each with its cell."""
    cells, where = study.by_trial, as_dict(asked.get("where"))
    for trial, record in records.items():
        cell = cells.get(trial)
        if (
            cell is not None
            and record.state == "done"
            and matches(cell, next(iter(cell.languages), ""), where)
        ):
            yield cell, record


def heads_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """Maps of heads: a ranking, an entropy, a change of weights, or how often each was removed."""
    show = str(asked.get("show") or "ranking")
    found: Maps = {}
    for cell, record in chosen(study, records, asked):
        for panel, one in maps_of(study, cell, record, show, asked.get("panels")):
            found.setdefault(panel, []).append(one)
    if show == "removed":
        found = {panel: several for panel, several in found.items() if any(several)}
    panels = list(found)[:MOST_PANELS]
    every = [
        f"{b}.{layer}.{i}"
        for b, sizes in layout(records).items()
        for layer, size in enumerate(sizes)
        for i in range(size)
    ]
    values = [
        row
        for panel in panels
        for row in _squares(panel, found[panel], every if show == "removed" else [])
    ]
    blocks = dict.fromkeys(row["block"] for row in values)
    if len(blocks) > 1:
        values = [{**row, "panel": f"{row['panel']} {row['block']}".strip()} for row in values]
        panels = [f"{panel} {block}".strip() for panel in panels for block in blocks]
    if not values:
        return None
    title = str(asked.get("title") or f"Heads: {show}") + _cut(len(found), MOST_PANELS)
    return head_maps(
        values,
        title,
        panels=panels,
        legend=LEGENDS[show],
        scheme="cividis" if show in CHANGES else "viridis",
    )


def _cut(panels: int, most: int) -> str:
    """What a title says of panels that are not drawn."""
    return f" (the first {most} of {panels})" if panels > most else ""


def maps_of(
    study: Study, cell: Cell, record: Record, show: str, axis: Any
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """What a record has to show of its heads, each map with the panel it belongs to."""
    panel = _panel(cell, axis)
    if show == "ranking":
        if (ranking := ranking_of(record)) is not None:
            yield panel or ranking_name(study, record, ranking), ranking.scores
    elif show == "removed":
        yield panel, dict.fromkeys(record.removed, 1.0)
    elif show == "entropy_change":
        if moved := entropy_moved(record):
            yield panel, moved
    else:
        for stage, measure in by_stage(record).items():
            if measure.get(show) and (show == "entropy" or stage == "after"):
                words = [panel, STAGES[stage] if show == "entropy" else ""]
                yield ", ".join(filter(None, words)), measure[show]


def entropy_moved(record: Record) -> dict[str, float]:
    """How far the entropy of each head that is left moved in epoch 1; in the whole training where nothing was measured in between."""
    held = {stage: as_dict(measure.get("entropy")) for stage, measure in by_stage(record).items()}
    before, later = held.get("before", {}), held.get("first") or held.get("after") or {}
    return {
        head: abs(later[head] - value)
        for head, value in before.items()
        if later.get(head) is not None
    }


def _panel(cell: Cell, axis: Any) -> str:
    """The label of an axis, with the name of the axis where the label is a bare number."""
    if not axis:
        return ""
    label = cell.axes.get(axis)
    return f"{axis} {label}" if isinstance(label, int | float) else joined(label)


def _squares(panel: str, several: list[Mapping[str, float]], every: list[str]) -> Iterator[Row]:
    """Means over the maps of a panel; a head that is not in a map was not there, or, of removals (`every` head), was kept."""
    for name in every or sorted({head for one in several for head in one}, key=Head.parse):
        head = Head.parse(name)
        values = (
            [one.get(name, 0.0) for one in several]
            if every
            else [one[name] for one in several if one.get(name) is not None]
        )
        if values:
            row = {
                "block": head.block,
                "layer": head.layer,
                "index": head.index,
                "head": name,
                "value": round(fmean(values), 6),
            }
            yield {**row, "panel": panel}


def similarity_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """Spearman's rho between the rankings of every two languages."""
    axis = asked.get("panels")
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for cell, record in chosen(study, records, asked):
        ranking = ranking_of(record)
        if ranking is not None and len(ranking.languages) == 1:
            panel = _panel(cell, axis)
            found.setdefault(panel, {}).setdefault(ranking.language, ranking.scores)
    panels = [panel for panel, several in found.items() if len(several) > 1]
    values = [
        {"a": a, "b": b, "value": round(rho, 4), "panel": panel}
        for panel in panels
        for a, one in found[panel].items()
        for b, other in found[panel].items()
        if not isnan(rho := ranking_rho(one, other))
    ]
    if not values:
        return None
    order = [
        one
        for one in (*study.languages, *(row["a"] for row in values))
        if any(row["a"] == one for row in values)
    ]
    title = str(asked.get("title") or "Likeness of rankings")
    return squares(
        values, title, order=list(dict.fromkeys(order)), panels=panels, legend="Spearman's rho"
    )


def points_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """Sentences of all languages as points, before and after training."""
    values: list[Row] = []
    panels: dict[str, None] = {}
    for cell, record in chosen(study, records, asked):
        for stage, measure in by_stage(record).items():
            held = as_dict(measure.get("embeddings"))
            if not isinstance(held.get("points"), dict):
                continue
            name = STAGES[stage]
            label = joined(cell.axes.get("remove")) if "remove" in study.axes else ""
            silhouette = (
                f"silhouette {held['silhouette']:.2f}"
                if isinstance(held.get("silhouette"), float)
                else ""
            )
            panel = ", ".join(filter(None, [name, label, silhouette]))
            if panel in panels:
                continue
            panels[panel] = None
            for language, several in held["points"].items() if len(panels) <= MOST_CLOUDS else ():
                step = max(1, -(-len(several) // MOST_POINTS))
                values += [
                    {"x": x, "y": y, "group": language, "panel": panel} for x, y in several[::step]
                ]
    if not values:
        return None
    groups = list(dict.fromkeys(row["group"] for row in values))
    title = str(asked.get("title") or "Sentences by language") + _cut(len(panels), MOST_CLOUDS)
    return scatter(
        values, title, groups=groups, panels=list(panels)[:MOST_CLOUDS], group="language"
    )
