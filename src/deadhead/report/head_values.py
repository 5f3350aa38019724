"""What the opened trials of a study say about heads: rankings, measures, removals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import BLOCKS, Head
from deadhead.measures import MEASURES, HeadMap, Measure
from deadhead.results import Opened, RankedHeads, Study
from deadhead.results.cells import Cell, matches
from deadhead.results.statistics import head_changes

from .labels import STAGES, joined

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
    for trial in study.opened.values():
        names.update(trial.removed, trial.ranking.scores if trial.ranking else ())
        for maps in measured_maps(trial, measures).values():
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
    trial: Opened, names: Collection[str]
) -> dict[str, dict[str, Mapping[str, float]]]:
    """The maps with these names that a trial has: stage -> name -> head -> value."""
    stages: dict[str, dict[str, Mapping[str, float]]] = {}
    for stage, measured in trial.measures.items():
        maps = stages.setdefault(stage, {})
        for name in names:
            measure, _, part = name.partition(".")
            values = measured.get(measure) or {}
            if values := (values.get(part) or {}) if part else values:
                maps[name] = values
    return stages


def measured_in(study: Study) -> dict[str, type[Measure]]:
    """The measures that some trial has."""
    stages = (measured for trial in study.opened.values() for measured in trial.measures.values())
    names = set().union(*stages)
    return {name: measure for name, measure in MEASURES.items() if name in names}


def rankings(study: Study) -> dict[str, RankedHeads]:
    """The distinct rankings, by name."""
    distinct: dict[str, RankedHeads] = {}
    for trial in study.opened.values():
        if trial.ranking is not None:
            distinct.setdefault(_ranking_name(study, trial.cell, trial.ranking), trial.ranking)
    return distinct


def _ranking_name(study: Study, cell: Cell, ranking: RankedHeads) -> str:
    """The labels that distinguish a ranking from the others of the study."""
    labels = {axis: cell.field(axis) for axis in ("task", "model", "seed") if axis in study.axes}
    if "seed" in labels:
        labels["seed"] = f"seed {labels['seed']}"
    method = joined(ranking.ranker, ranking.merge, by=" ")
    return joined(method, ranking.language, *map(str, labels.values()))


def removed_counts(study: Study) -> Counter[str]:
    return Counter(chain.from_iterable(trial.removed for trial in study.opened.values()))


def shows() -> dict[str, str]:
    """What a figure of heads can show -> the title of its scale."""
    return LEGENDS | {name: measure.legend for name, measure in map_measures().items()}


def chosen(study: Study, where: Mapping[str, Any] | None = None) -> Iterator[Opened]:
    """The done trials with these labels."""
    for trial in study.opened.values():
        if trial.done and matches(trial.cell, next(iter(trial.cell.languages), ""), where or {}):
            yield trial


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
            name = panel or _ranking_name(study, trial.cell, trial.ranking)
            yield name, trial.ranking.scores
    elif show == REMOVED:
        yield panel, dict.fromkeys(trial.removed, 1.0)
    elif show == ENTROPY_CHANGE:
        if change := head_changes(*trial.before_and_later("entropy")):
            yield panel, change
    else:
        is_change = map_measures()[show].is_change
        for stage, maps in measured_maps(trial, [show]).items():
            if maps.get(show) and (not is_change or stage == "after"):
                yield joined(panel, "" if is_change else STAGES[stage]), maps[show]
