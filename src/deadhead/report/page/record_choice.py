"""The records that the report opens: all of a small study, and of a large one those that tell the most.

Scores come from the index. Rankings, measures, removed heads and errors are only in the records
themselves, and 20,000 of them cannot all be opened in the time a reader waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results.cells import Cell, Study
from deadhead.studies.store.records import Record, Summary, read_within

MOST = 800  # records that are opened
FAILED = 60  # failed trials among them


def opened(study: Study, most: int = MOST) -> dict[str, Record]:
    """Records by id, those worth showing first."""
    found: dict[str, Record] = {}
    for name in worth(study):
        if len(found) >= most:
            break
        try:
            found[name] = read_within(study.home, name)
        except DeadheadError:  # damaged, and of the size and time that the index knows
            study.unreadable.append(name)
    return found


def worth(study: Study) -> Iterator[str]:
    """The ids of all records, in the order in which they are worth opening; each once."""
    cells = [cell for cell in study.cells if cell.summary is not None]
    yield from dict.fromkeys((*_firsts(cells), *_spread([cell.trial for cell in cells])))


def _firsts(cells: list[Cell]) -> Iterator[str]:
    """One for each ranking, each removal and each measured trial, and what failed."""
    yield from [cell.trial for cell in cells if cell.unpruned][:FAILED]
    seen: set[str] = set()
    for cell in cells:
        for key in _tells(cell, cell.summary):  # type: ignore[arg-type]
            if key not in seen:
                seen.add(key)
                yield cell.trial
    yield from [cell.trial for cell in cells if cell.state == "failed"][:FAILED]


def _tells(cell: Cell, summary: Summary) -> Iterator[str]:
    trial = summary.trial
    if summary.state == "done" and "rank" in trial:
        yield ranking_key(trial)
    if "measure" in trial:
        yield summary.id
    yield f"remove {cell.axes.get('remove')}"


def ranking_key(trial: Mapping[str, Any]) -> str:
    """What a ranking depends on."""
    return json.dumps(
        [trial.get(name) for name in ("model", "task", "source", "rank", "seed")], sort_keys=True
    )


def _spread(ids: list[str]) -> Iterator[str]:
    """All ids, so that the first of them lie evenly over the whole: every 64th, then every 32nd between, and so on."""
    step = 1
    while step * 64 < len(ids):
        step *= 2
    step *= 64
    while step:
        yield from ids[::step]
        step //= 2
