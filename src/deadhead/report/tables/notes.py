"""Notes that keep a reader from misreading a table: who chose the epoch, what data was short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, fixed_of, parts_of
from deadhead.studies.inputs import differing
from deadhead.studies.store.records import read_within
from deadhead.tasks import task_of


def remarks(study: Study, cells: Iterable[Cell], split: str) -> list[str]:
    """The sentences that apply to a table of these cells."""
    distinct = list({cell.trial: cell for cell in cells}.values())
    return [*_epoch_chosen_on(study, distinct, split), *about_data(study, distinct)]


def _epoch_chosen_on(study: Study, cells: Sequence[Cell], split: str) -> list[str]:
    """A note if the best epoch's weights are scored on the data that chose the epoch."""
    parts = [as_dict(part.get("fixed")) for part in parts_of(study.recipe)]
    splits = set()
    for cell in cells:
        finetune = as_dict(fixed_of(parts, cell.axes).get("finetune"))
        scored = split or cell.split
        if _choosing_split(finetune, str(cell.axes.get("task"))) == scored:
            splits |= {scored} if {*cell.train} & {*cell.languages} else set()
    return [
        f"The epoch is the best of a training by the same {name} set, so scores are slightly too "
        "high."
        for name in sorted(splits)
    ]


def _choosing_split(finetune: Mapping[str, Any], task: str) -> str | None:
    """The split of the task that chooses the epoch; None if none does, or another task's data."""
    if finetune.get("weights") != "best":
        return None
    scored = str(finetune.get("scored", "dev"))
    if scored != "train_task":
        return scored
    try:
        return None if task_of(task).train_on else "dev"
    except (DeadheadError, OSError):  # its task file is not here
        return None


def about_data(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Notes if records of one table read different files, or less data than the recipe names."""
    done = [cell for cell in cells if cell.summary is not None and cell.state == "done"]
    notes = []
    inputs = differing([cell.summary.trial for cell in done if cell.summary])
    names = "; ".join(f"{name} in {versions} versions" for name, versions in inputs.items())
    if names:
        notes.append(f"These records do not share their inputs: {names}.")
    rows = "; ".join(f"{name} {size}" for name, size in _shortfalls(study, done).items())
    if rows:
        notes.append(f"Less data than the recipe asks for: {rows} rows.")
    return notes


def _shortfalls(study: Study, cells: Sequence[Cell]) -> dict[str, str]:
    """Trainings and rankings with fewer rows than the recipe names.

    One record is read for all trials with the same data.
    """
    short: dict[str, str] = {}
    by_data = {(str(cell.axes.get("task")), tuple(cell.train)): cell for cell in cells}
    for (task, _), cell in by_data.items():
        try:
            missing = as_dict(read_within(study.home, cell.trial).details.get("shortfalls"))
            short |= {
                f"{task} {name}": f"{int(size['got']):,} of {int(size['expected']):,}"
                for name, size in missing.items()
            }
        except (DeadheadError, KeyError, TypeError, ValueError):
            continue
    return short
