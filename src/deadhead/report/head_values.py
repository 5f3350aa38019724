"""The records that the page shows, and what they say about heads: rankings, measures, removals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.measures import MEASURES, HeadMap, Measure
from deadhead.results import RankedHeads, Study
from deadhead.results.cells import Cell, as_dict, matches
from deadhead.results.records import by_stage, ranking_of
from deadhead.results.statistics import head_changes
from deadhead.studies.store.records import Record

from .labels import STAGES, joined

BLOCKS = ("encoder", "decoder", "cross")  # in the order of the page
RANKING, REMOVED, ENTROPY_CHANGE = "ranking", "removed", "entropy_change"
LEGENDS = {
    RANKING: "score",
    REMOVED: "share of trials",
    ENTROPY_CHANGE: "|change| of entropy, nats",
}


def layout(study: Study) -> dict[str, list[int]]:
    """Heads of each layer by block, as far as records name them; all layers are taken as equal."""
    names: set[str] = set()
    measures = map_measures()
    for record in study.records.values():
        names.update(record.removed)
        if (ranking := ranking_of(record)) is not None:
            names.update(ranking.scores)
        for maps in measured_maps(record, measures).values():
            names.update(*maps.values())
    sizes: dict[str, tuple[int, int]] = {}
    for name in names:
        with suppress(DeadheadError):
            head = Head.parse(name)
            layers, heads = sizes.get(head.block, (0, 0))
            sizes[head.block] = (max(layers, head.layer + 1), max(heads, head.index + 1))
    order = sorted(sizes, key=lambda b: (BLOCKS.index(b) if b in BLOCKS else len(BLOCKS), b))
    return {block: [sizes[block][1]] * sizes[block][0] for block in order}


def map_measures() -> dict[str, HeadMap]:
    """The maps with a number for each head that measures give, by name."""
    return {n: m for name, measure in MEASURES.items() for n, m in measure.maps(name).items()}


def measured_maps(
    record: Record, names: Collection[str]
) -> dict[str, dict[str, Mapping[str, float]]]:
    """The maps with these names that a record has: stage -> name -> head -> value."""
    stages: dict[str, dict[str, Mapping[str, float]]] = {}
    for stage, measured in by_stage(record).items():
        maps = stages.setdefault(stage, {})
        for name in names:
            measure, _, part = name.partition(".")
            values = measured.get(measure) or {}
            if values := (values.get(part) or {}) if part else values:
                maps[name] = values
    return stages


def measured_in(study: Study) -> dict[str, type[Measure]]:
    """The measures that some record has."""
    stages = (by_stage(record).values() for record in study.records.values())
    names = {name for measures in stages for measured in measures for name in measured}
    return {name: measure for name, measure in MEASURES.items() if name in names}


def ranking_name(study: Study, record: Record, ranking: RankedHeads) -> str:
    """What distinguishes a ranking from the others of the study."""
    axes = [axis for axis in ("task", "model", "seed") if axis in study.axes]
    labels = {axis: str(record.trial.get(axis)) for axis in axes}
    if "seed" in labels:
        labels["seed"] = f"seed {labels['seed']}"
    method = joined(ranking.ranker, ranking.merge, by=" ")
    return joined(method, ranking.language, *labels.values())


def rankings(study: Study) -> dict[str, tuple[str, Mapping[str, float]]]:
    """The distinct rankings: name -> the trial it is from, and its scores."""
    distinct: dict[str, tuple[str, Mapping[str, float]]] = {}
    for trial, record in study.records.items():
        if (ranking := ranking_of(record)) is not None:
            name = ranking_name(study, record, ranking)
            distinct.setdefault(name, (trial, ranking.scores))
    return distinct


def removed_counts(study: Study) -> Counter[str]:
    return Counter(chain.from_iterable(record.removed for record in study.records.values()))


def shows() -> dict[str, str]:
    """What a figure of heads can show -> the title of its scale."""
    return LEGENDS | {name: measure.legend for name, measure in map_measures().items()}


def chosen(study: Study, where: Mapping[str, Any] | None = None) -> Iterator[tuple[Cell, Record]]:
    """The done records with these labels, each with its cell."""
    cells = study.by_trial
    for trial, record in study.records.items():
        cell = cells.get(trial)
        if cell is None or record.state != "done":
            continue
        if matches(cell, next(iter(cell.languages), ""), where or {}):
            yield cell, record


def panel_label(cell: Cell, axis: str) -> str:
    """The label of a cell on an axis; a number comes with the name of the axis."""
    label = cell.axes.get(axis) if axis else ""
    return f"{axis} {label}" if isinstance(label, int | float) else joined(label)


def head_values(
    study: Study, cell: Cell, record: Record, show: str, axis: str
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The values of a record's heads, each map of them with the panel it belongs to."""
    panel = panel_label(cell, axis)
    if show == RANKING:
        if (ranking := ranking_of(record)) is not None:
            yield panel or ranking_name(study, record, ranking), ranking.scores
    elif show == REMOVED:
        yield panel, dict.fromkeys(record.removed, 1.0)
    elif show == ENTROPY_CHANGE:
        if change := head_changes(*entropy_stages(record)):
            yield panel, change
    else:
        is_change = map_measures()[show].is_change
        for stage, maps in measured_maps(record, [show]).items():
            if maps.get(show) and (not is_change or stage == "after"):
                yield joined(panel, "" if is_change else STAGES[stage]), maps[show]


def entropy_stages(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entropy of heads before training, and after epoch 1 or, if not measured, at the end."""
    stages = {stage: as_dict(m.get("entropy")) for stage, m in by_stage(record).items()}
    return stages.get("before", {}), stages.get("first") or stages.get("after") or {}
