"""What the opened records say about single heads: rankings, measures, removals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.measures import MEASURES, HeadMap, Measure
from deadhead.results import RankedHeads, Study
from deadhead.results.from_record import by_stage, ranking_of
from deadhead.studies.store.records import Record

from .labels import joined

BLOCKS = ("encoder", "decoder", "cross")  # in the order of the page
RANKING, REMOVED, ENTROPY_CHANGE = "ranking", "removed", "entropy_change"


def layout(study: Study) -> dict[str, list[int]]:
    """Heads of each layer by block, as far as records name them; all layers are taken as equal."""
    sizes: dict[str, tuple[int, int]] = {}
    for name in {head for record in study.records.values() for head in _named(record)}:
        try:
            head = Head.parse(name)
        except DeadheadError:
            continue
        layers, heads = sizes.get(head.block, (0, 0))
        sizes[head.block] = (max(layers, head.layer + 1), max(heads, head.index + 1))
    order = sorted(sizes, key=lambda b: (BLOCKS.index(b) if b in BLOCKS else len(BLOCKS), b))
    return {block: [sizes[block][1]] * sizes[block][0] for block in order}


def _named(record: Record) -> Iterator[str]:
    yield from record.removed
    if (ranking := ranking_of(record)) is not None:
        yield from ranking.scores
    for maps in measured_maps(record).values():
        for values in maps.values():
            yield from values


def map_measures() -> dict[str, HeadMap]:
    """The maps with a number for each head that measures give, by name."""
    return {n: m for name, measure in MEASURES.items() for n, m in measure.maps(name).items()}


def measured_maps(record: Record) -> dict[str, dict[str, Mapping[str, float]]]:
    """The maps of a record: stage -> name -> head -> value."""
    stages: dict[str, dict[str, Mapping[str, float]]] = {}
    for stage, measured in by_stage(record).items():
        maps = stages.setdefault(stage, {})
        for name in map_measures():
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
    return Counter(head for record in study.records.values() for head in record.removed)
