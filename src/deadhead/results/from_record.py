"""The ranking and the measures that a record keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deadhead.studies.store.records import Record
from deadhead.studies.trial import label

from .cells import as_dict
from .model import Measurement, RankedHeads
from .task_facts import task_facts

STAGES = ("before", "first", "after")  # when a trial measures


def ranking_of(record: Record) -> RankedHeads | None:
    """The ranking that a trial made or used; None where there is none."""
    ranking, rank = as_dict(record.details.get("ranking")), as_dict(record.trial.get("rank"))
    scores = _known(ranking.get("scores"))
    if not scores:
        return None
    method, rule = str(ranking.get("method", "")), rank.get("rule")
    return RankedHeads(
        **_facts(record),
        languages=tuple(map(str, ranking.get("languages") or ())),
        method=f"{method} rule={rule}" if rule else method,
        scores=scores,
        merge=str(ranking.get("merge") or ""),
    )


def measures_of(record: Record) -> Iterator[Measurement]:
    """What was measured at each stage; heads whose value was not a number are left out."""
    stages, facts = as_dict(record.details.get("measures")), _facts(record)
    remove = str(label(record.trial.get("remove", "none")))
    for stage in STAGES:
        for name, stored in as_dict(stages.get(stage)).items():
            if values := _known(stored):
                yield Measurement(
                    **facts,
                    remove=remove,
                    name=name,
                    stage=stage,
                    values=values,
                    removed=record.removed,
                )


def by_stage(record: Record) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The values of all measures: stage -> name -> values."""
    stages: dict[str, dict[str, Mapping[str, Any]]] = {}
    for measure in measures_of(record):
        stages.setdefault(measure.stage, {})[measure.name] = measure.values
    return stages


def _facts(record: Record) -> dict[str, Any]:
    trial = record.trial
    task = task_facts(str(trial.get("task")))
    return {
        "trial": trial.id,
        "model": str(trial.get("model")),
        "task": task.name,
        "kind": task.kind,
    }


def _known(stored: Any) -> dict[str, Any]:
    """The stored values without those that were not a number, which are null in a record."""
    return {
        name: _known(value) if isinstance(value, dict) else value
        for name, value in as_dict(stored).items()
        if value is not None
    }


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
