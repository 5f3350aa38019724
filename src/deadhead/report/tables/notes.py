"""Notes that keep a reader from misreading a table: who chose the epoch, what data was short."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, fixed_of
from deadhead.tasks import task_of
from deadhead.tasks.catalogue import papers_corpus
from deadhead.tasks.reading.columns import STARTS

Details = Sequence[tuple[str, Mapping[str, Any]]]  # a task and the details of one of its records


def remarks(study: Study, cells: Collection[Cell], split: str) -> list[str]:
    """The sentences that apply to a table of these trials."""
    return [*_epoch_chosen_on(study, cells, split), *about_data(study, cells)]


def _epoch_chosen_on(study: Study, cells: Collection[Cell], split: str) -> list[str]:
    """A note if the best epoch's weights are scored on the data that chose the epoch."""
    splits = set()
    for cell in cells:
        finetune = as_dict(fixed_of(study.recipes, cell.axes).get("finetune"))
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


def about_data(study: Study, cells: Collection[Cell]) -> list[str]:
    """Say where records of one table read less data than the recipe names, or another corpus."""
    done = [cell for cell in cells if cell.state == "done"]
    notes = []
    details = list(_details(study, done))
    if rows := "; ".join(_shortfalls(details)):
        notes.append(f"Less data than the recipe asks for: {rows} rows.")
    if other := "; ".join(_other_data(study, details)):
        notes.append(f"Other data than the paper's: {other}.")
    return notes


def _details(study: Study, cells: Sequence[Cell]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The task and the details of one record for all trials with the same data."""
    by_data = {(str(cell.axes.get("task")), tuple(cell.train)): cell for cell in cells}
    for (task, _), cell in by_data.items():
        yield task, study.details(cell.trial)


def _shortfalls(details: Details) -> dict[str, None]:
    """Trainings and rankings with fewer rows than the recipe names, each once."""
    return {
        f"{task} {name} {size['got']:,} of {size['expected']:,}": None
        for task, described in details
        for name, size in as_dict(described.get("shortfalls")).items()
    }


def _other_data(study: Study, details: Details) -> dict[str, None]:
    """What the records read in place of the corpora of the study's paper, each once."""
    texts: dict[str, None] = {}
    for task, described in details:
        for name, read in as_dict(described.get("corpora")).items():
            other, _, pair = name.rpartition(" ")
            lang, _, split = pair.partition("/")
            corpus = papers_corpus(other or task, lang)
            if corpus is None or not study.name.startswith(f"{corpus.paper}/"):
                continue
            text = corpus.other_corpus(read["corpus"], read["release"])
            if not text and not corpus.has_rows(split, read["rows"], read.get(STARTS, 0)):
                text = f"{read['rows']:,} rows (paper: {corpus.sizes[split]:,})"
            texts |= {f"{other or task} {pair}: {text}": None} if text else {}
    return texts
