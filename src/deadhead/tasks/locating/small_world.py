"""The embedded small world, by the name `world` in place of a data folder: real words offline, on the same road as any data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deadhead.errors import unknown_name
from deadhead.tasks.dataset import Dataset, dataset
from deadhead.tasks.registry import TASKS
from deadhead.tasks.splits import SPLITS
from deadhead.tasks.task import Row, Task

WORLD = "world"
# What the small world calls our tasks.
WORLD_TASKS = {
    "pos": "pos",
    "ner": "ner",
    "slots": "slots",
    "mnli": "nli",
    "xnli": "nli",
    "sst2": "sentiment",
    "parallel": "translation",
}


def is_world(root: str | Path | None) -> bool:
    """Whether the small world is meant; a folder of that name goes first."""
    return str(root) == WORLD and not Path(WORLD).is_dir()


def read_world(task: Task, lang: str, split: str) -> Dataset:
    """The small world's rows of a task."""
    from deadhead.world import rows

    if task.name not in WORLD_TASKS:
        raise unknown_name("task of the small world", task.name, WORLD_TASKS)
    found = rows(WORLD_TASKS[task.name], lang, split)
    made = {
        "word": lambda row: Row(tuple(row[0]), tuple(row[1])),
        "row": lambda row: Row(tuple(row[:-1]), (row[-1],)),
        "text": lambda row: Row(tuple(row)),
    }[task.traits.label_unit]
    return dataset(task, lang, split, map(made, found), files=(WORLD,))


def in_world(task: Task, lang: str) -> str:
    """The small world's name, if it has the task in this language; it has all splits."""
    from deadhead.world import LANGUAGES

    if task.name not in WORLD_TASKS:
        raise unknown_name("task of the small world", task.name, WORLD_TASKS)
    pair = lang.partition("-")
    known = (
        pair[0] != pair[2] and {pair[0], pair[2]} <= {*LANGUAGES}
        if task.kind == "translate"
        else lang in LANGUAGES
    )
    if not known:
        raise unknown_name(
            "language pair of the small world"
            if task.kind == "translate"
            else "language of the small world",
            lang,
            LANGUAGES,
        )
    return WORLD


def all_of_world() -> Iterator[Dataset]:
    """Everything in the small world; translations only out of English."""
    from deadhead.world import LANGUAGES

    for name in WORLD_TASKS:
        langs = (
            [f"en-{lang}" for lang in LANGUAGES if lang != "en"]
            if name == "parallel"
            else LANGUAGES
        )
        for lang in langs:
            yield from (read_world(TASKS[name], lang, split) for split in SPLITS)
