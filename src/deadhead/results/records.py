"""What only records have: rankings, measures, removed heads, losses; and which of them to open.

Scores come from the scan. Of a small study all records are opened, of a large one the most useful
ones: opening 20,000 takes longer than a reader waits.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from deadhead.measures import MEASURES, HeadMap
from deadhead.studies.store.records import Record
from deadhead.studies.trial import label

from .cells import Cell, as_dict, task_info
from .model import Measurement, RankedHeads

STAGES = ("before", "first", "after")  # when a trial measures
LATER = STAGES[1:]  # after epoch 1 or, if it did not measure there, at the end
STEP = 32  # between trials that are opened one after the other
FAILED = 60  # failed trials among the first records to open
RANKED_BY = ("model", "task", "source", "rank", "seed")  # what a ranking depends on


def map_measures() -> dict[str, HeadMap]:
    """The maps with a number for each head that measures give, by name."""
    return {n: m for name, measure in MEASURES.items() for n, m in measure.maps(name).items()}


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What the record of a trial adds to its scores."""

    cell: Cell
    record: Record

    @property
    def done(self) -> bool:
        return self.cell.state == "done"

    @property
    def removed(self) -> tuple[str, ...]:
        """The removed heads."""
        return self.record.removed

    @cached_property
    def ranking(self) -> RankedHeads | None:
        return ranking_of(self.record)

    @cached_property
    def measures(self) -> dict[str, dict[str, Mapping[str, Any]]]:
        """The values of what was measured, by stage and name."""
        measures: dict[str, dict[str, Mapping[str, Any]]] = {}
        for measure in measures_of(self.record):
            measures.setdefault(measure.stage, {})[measure.name] = measure.values
        return measures

    @cached_property
    def maps(self) -> dict[str, dict[str, Mapping[str, float]]]:
        """Its maps with a number for each head: stage -> name -> head -> value."""
        stages: dict[str, dict[str, Mapping[str, float]]] = {}
        for stage, measured in self.measures.items():
            maps = stages.setdefault(stage, {})
            for name in map_measures():
                measure, _, part = name.partition(".")
                values = measured.get(measure) or {}
                if values := (values.get(part) or {}) if part else values:
                    maps[name] = values
        return stages

    def before_and_later(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """A measure before training, and the first one after it."""
        stages = {stage: of[name] for stage, of in self.measures.items() if name in of}
        later = (stages[stage] for stage in LATER if stage in stages)
        return stages.get("before", {}), next(later, {})


def ranking_of(record: Record) -> RankedHeads | None:
    """The ranking that a trial made or used; None where there is none."""
    ranking, rank = as_dict(record.details.get("ranking")), as_dict(record.trial.get("rank"))
    scores = _numbers(ranking.get("scores"))
    if not scores:
        return None
    method, rule = str(ranking.get("method", "")), rank.get("rule")
    return RankedHeads(
        **_common(record),
        languages=tuple(map(str, ranking.get("languages") or ())),
        method=f"{method} rule={rule}" if rule else method,
        scores=scores,
        merge=str(ranking.get("merge") or ""),
    )


def measures_of(record: Record) -> Iterator[Measurement]:
    """What was measured at each stage; heads whose value was not a number are left out."""
    stages, common = as_dict(record.details.get("measures")), _common(record)
    remove = str(label(record.trial.get("remove", "none")))
    for stage in STAGES:
        for name, stored in as_dict(stages.get(stage)).items():
            if values := _numbers(stored):
                yield Measurement(
                    **common,
                    remove=remove,
                    name=name,
                    stage=stage,
                    values=values,
                    removed=record.removed,
                )


def _common(record: Record) -> dict[str, Any]:
    trial = record.trial
    task = task_info(str(trial.get("task")))
    return {
        "trial": trial.id,
        "model": str(trial.get("model")),
        "task": task.name,
        "kind": task.kind,
    }


def _numbers(stored: Any) -> dict[str, Any]:
    """The stored values without those that were not a number, which are null in a record."""
    return {
        name: _numbers(value) if isinstance(value, dict) else value
        for name, value in as_dict(stored).items()
        if value is not None
    }


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def by_use(cells: Iterable[Cell]) -> Iterator[str]:
    """The ids of all records, the most useful first, then some of every part of the study."""
    recorded = [cell for cell in cells if cell.summary is not None]
    ids = [cell.trial for cell in recorded]
    parts = (ids[start::STEP] for start in range(STEP))
    yield from dict.fromkeys((*_firsts(recorded), *chain.from_iterable(parts)))


def _firsts(cells: list[Cell]) -> Iterator[str]:
    """One for each ranking, each removal and each measured trial, and what failed."""
    yield from [cell.trial for cell in cells if cell.unpruned][:FAILED]
    seen: set[Any] = set()
    for cell in cells:
        assert cell.summary is not None
        trial = cell.summary.trial
        keys: list[Any] = [("remove", cell.axes.get("remove"))]
        if "rank" in trial and cell.state == "done":
            keys.append(json.dumps([trial.get(name) for name in RANKED_BY], sort_keys=True))
        if "measure" in trial:
            keys.append(cell.trial)
        if not seen.issuperset(keys):
            seen.update(keys)
            yield cell.trial
    yield from [cell.trial for cell in cells if cell.state == "failed"][:FAILED]
