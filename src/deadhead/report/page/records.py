"""The trials that a reader can open: records with epochs, cost, error and sample predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadhead.results import Study
from deadhead.studies.store.records import Record

from .samples import Samples

MOST = 300  # records in a page
LONGEST_ERROR = 20_000  # characters


def full_records(study: Study, records: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The first few hundred of the opened records; failed ones first."""
    order = sorted(records, key=lambda trial: records[trial].state != "failed")[:MOST]
    samples, cells = Samples(study), study.by_trial
    return {
        trial: _full(
            records[trial], samples.of(cells[trial], records[trial]) if trial in cells else []
        )
        for trial in order
    }


def _full(record: Record, sample: list[Any]) -> dict[str, Any]:
    metrics = {n: round(value, 5) for n, value in record.metrics.items() if value is not None}
    return {
        "trial": dict(record.trial.content),
        "removed": list(record.removed),
        "metrics": metrics,
        "epochs": [dict(epoch) for epoch in record.epochs],
        "cost": dict(record.cost),
        "details": _details(record),
        "error": record.error[-LONGEST_ERROR:] if record.error else None,
        "sample": sample,
    }


def _details(record: Record) -> dict[str, Any]:
    """The details without what maps and figures show: scores of heads, points of sentences."""
    details = dict(record.details)
    ranking = details.get("ranking")
    if isinstance(ranking, dict):
        details["ranking"] = {name: value for name, value in ranking.items() if name != "scores"}
    measures = details.pop("measures", None)
    if isinstance(measures, dict):
        stages = {stage: list(of) for stage, of in measures.items() if isinstance(of, dict)}
        details["measured"] = stages
    return details
