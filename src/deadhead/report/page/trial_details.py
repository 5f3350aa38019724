"""Records in full, for the trials a reader may open: with their epochs, cost, error and a sample of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadhead.results import Study
from deadhead.studies.store.records import Record

from .samples import Samples

MOST = 300  # records a page holds in full
LONGEST = 20_000  # characters of an error


def shown(study: Study, records: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The first few hundred of the records that were opened; every failed one first."""
    order = sorted(records, key=lambda name: records[name].state != "failed")[:MOST]
    samples, cells = Samples(study), study.by_trial
    return {
        name: _full(records[name], samples.of(cells[name], records[name]) if name in cells else [])
        for name in order
    }


def _full(record: Record, sample: list[Any]) -> dict[str, Any]:
    return {
        "trial": dict(record.trial.content),
        "removed": list(record.removed),
        "metrics": {
            name: round(value, 5) for name, value in record.metrics.items() if value is not None
        },
        "epochs": [dict(epoch) for epoch in record.epochs],
        "cost": dict(record.cost),
        "details": _lean(record),
        "error": record.error[-LONGEST:] if record.error else None,
        "sample": sample,
    }


def _lean(record: Record) -> dict[str, Any]:
    """The details without what maps and figures show already: scores of heads, points of sentences."""
    details = dict(record.details)
    ranking = details.get("ranking")
    if isinstance(ranking, dict):
        details["ranking"] = {name: value for name, value in ranking.items() if name != "scores"}
    measures = details.pop("measures", None)
    if isinstance(measures, dict):
        told = {stage: list(found) for stage, found in measures.items() if isinstance(found, dict)}
        details["measured"] = told
    return details
