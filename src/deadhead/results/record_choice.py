"""Which records to open: all of a small study, and of a large study the most useful ones.

Scores come from the index. Rankings, measures, removed heads and errors are only in the records
themselves, and opening 20,000 of them takes longer than a reader waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deadhead.studies.store.records import Summary

from .cells import Cell

FAILED = 60  # failed trials among the first records


def by_use(cells: Iterable[Cell]) -> Iterator[str]:
    """The ids of all records, the most useful first; each once."""
    recorded = [cell for cell in cells if cell.summary is not None]
    yield from dict.fromkeys((*_firsts(recorded), *_spread([cell.trial for cell in recorded])))


def _firsts(cells: list[Cell]) -> Iterator[str]:
    """One for each ranking, each removal and each measured trial, and what failed."""
    yield from [cell.trial for cell in cells if cell.unpruned][:FAILED]
    seen: set[str] = set()
    for cell in cells:
        for key in _keys(cell, cell.summary):  # type: ignore[arg-type]
            if key not in seen:
                seen.add(key)
                yield cell.trial
    yield from [cell.trial for cell in cells if cell.state == "failed"][:FAILED]


def _keys(cell: Cell, summary: Summary) -> Iterator[str]:
    """What is worth one record each."""
    trial = summary.trial
    if summary.state == "done" and "rank" in trial:
        yield ranking_key(trial)
    if "measure" in trial:
        yield summary.id
    yield f"remove {cell.axes.get('remove')}"


def ranking_key(trial: Mapping[str, Any]) -> str:
    """What a ranking depends on."""
    names = ("model", "task", "source", "rank", "seed")
    return json.dumps([trial.get(name) for name in names], sort_keys=True)


def _spread(ids: list[str]) -> Iterator[str]:
    """All ids, the first of them evenly spaced: every 64th, then every 32nd between, and so on."""
    step = 1
    while step * 64 < len(ids):
        step *= 2
    step *= 64
    while step:
        yield from ids[::step]
        step //= 2
