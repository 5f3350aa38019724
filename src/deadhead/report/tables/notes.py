"""What a table says about itself where a reader could be misled: who chose the epoch, how large a layer is, what data was short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, fixed_of, parts_of
from deadhead.studies.inputs import differing
from deadhead.studies.store.records import read_within
from deadhead.tasks import task_of

from .published import Row

LAYERS = {
    "bert-base-uncased": 12,
    "bert-base-multilingual-cased": 12,
    "xlm-roberta-base": 12,
}  # of models with published numbers


def remarks(
    study: Study, cells: Iterable[Cell], asked: Mapping[str, Any], file: Sequence[Row]
) -> list[str]:
    """The sentences that apply to a table of these cells."""
    held = list({cell.trial: cell for cell in cells}.values())
    return [
        *_chosen_here(study, held, asked.get("split")),
        *_shares_of_layers(study, held, file),
        *about_data(study, held),
    ]


def _chosen_here(study: Study, cells: Sequence[Cell], split: Any) -> list[str]:
    """Where the weights of the best epoch are scored on the very data that said which epoch is best."""
    parts = [as_dict(part.get("fixed")) for part in parts_of(study.recipe)]
    chosen = {
        str(split or cell.split)
        for cell in cells
        if _chooses(as_dict(fixed_of(parts, cell.axes).get("finetune")), str(cell.axes.get("task")))
        == str(split or cell.split)
        and {*cell.train} & {*cell.languages}
    }
    return [
        f"The epoch is the best of a training by the same {name} set, so scores are slightly too high."
        for name in sorted(chosen)
    ]


def _chooses(finetune: Mapping[str, Any], task: str) -> str | None:
    """The split of the task that chooses the epoch; None where none does, or another task's data."""
    if finetune.get("weights") != "best":
        return None
    scored = str(finetune.get("scored", "dev"))
    if scored != "train_task":
        return scored
    try:
        return None if task_of(task).train_on else "dev"
    except (DeadheadError, OSError):  # its task file is not here
        return None


def _shares_of_layers(study: Study, cells: Sequence[Cell], file: Sequence[Row]) -> list[str]:
    """Where `top 3` is another share of our model than of the published one."""
    models = {
        row["model"]
        for row in file
        if row.get("remove", "").startswith("layers ") and row.get("model") in LAYERS
    }
    ours = _layers(study, cells) if models else None
    other = sorted(model for model in models if LAYERS[model] != ours)
    if ours is None or not other:
        return []
    theirs = LAYERS[other[0]]
    return [
        f"Layers are counted in each model by itself: one layer is {100 / ours:.0f} % of the {ours} here, "
        f"and {100 / theirs:.0f} % of the {theirs} of {', '.join(other)}."
    ]


def about_data(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Where records of one table read different files, or less data than the recipe asks for."""
    return [*_different_inputs(cells), *_short_of_data(study, cells)]


def _different_inputs(cells: Sequence[Cell]) -> list[str]:
    contents = [
        cell.summary.trial for cell in cells if cell.summary is not None and cell.state == "done"
    ]
    names = "; ".join(
        f"{name} in {versions} versions" for name, versions in differing(contents).items()
    )
    return [f"These records do not share their inputs: {names}."] if names else []


def _short_of_data(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Where trainings (or rankings) had fewer rows than the recipe asks for; one record speaks for all with the same data."""
    alike = {
        (str(cell.axes.get("task")), tuple(cell.train)): cell
        for cell in cells
        if cell.summary is not None and cell.state == "done"
    }
    short: dict[str, str] = {}
    for (task, _), cell in alike.items():
        try:
            missing = as_dict(read_within(study.home, cell.trial).details.get("shortfalls"))
            short |= {
                f"{task} {name}": f"{int(size['got']):,} of {int(size['expected']):,}"
                for name, size in missing.items()
            }
        except (DeadheadError, KeyError, TypeError, ValueError):
            continue
    several = "; ".join(f"{name} {size}" for name, size in short.items())
    return [f"Less data than the recipe asks for: {several} rows."] if several else []


def _layers(study: Study, cells: Sequence[Cell]) -> int | None:
    """How many layers the models of these cells have, out of the record of one that lost whole layers."""
    for cell in cells:
        if cell.summary is None or cell.state != "done" or cell.axes.get("strategy") != "layers":
            continue
        try:
            record = read_within(study.home, cell.trial)
            gone = [Head.parse(head).layer for head in record.removed]
            return round(int(record.cost["heads before"]) / (len(gone) / len({*gone})))
        except (DeadheadError, KeyError, TypeError, ValueError, ZeroDivisionError):
            continue
    return None
