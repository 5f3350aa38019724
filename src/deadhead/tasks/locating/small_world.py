"""The bundled small world, named `world` in place of a data folder: real words, offline."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead import world
from deadhead.errors import unknown_name
from deadhead.tasks.dataset import Dataset, dataset
from deadhead.tasks.registry import TASKS
from deadhead.tasks.task import SPLITS, TEXT, Row, Task

WORLD = "world"
# fmt: off
WORLD_TASKS = {  # our tasks, and the small world's names for them
    "pos": "pos", "ner": "ner", "slots": "slots", "mnli": "nli", "xnli": "nli", "sst2": "sentiment",
    "parallel": "translation", "lm": "pos",
}
# fmt: on
ROW_OF: Mapping[str, Callable[[Any], Row]] = {  # by what has a label
    "word": lambda row: Row(tuple(row[0]), tuple(row[1])),
    "row": lambda row: Row(tuple(row[:-1]), (row[-1],)),
    "text": lambda row: Row(tuple(row)),
    "token": lambda row: Row((" ".join(row[0]),)),
}


def is_world(root: str | Path | None) -> bool:
    """Whether the small world is meant; a folder of that name comes first."""
    return str(root) == WORLD and not Path(WORLD).is_dir()


def read_world(task: Task, lang: str, split: str) -> Dataset:
    """Return the small world's rows of a task."""
    rows = world.rows(_world_task(task), "en" if lang == TEXT else lang, split)
    examples = [*map(ROW_OF[task.traits.label_unit], rows)]
    if task.traits.label_unit == "token":  # a sentence is a line of one text
        examples = [Row(("\n".join(row.texts[0] for row in examples),))]
    return dataset(task, lang, split, examples, files=(WORLD,))


def in_world(task: Task, lang: str) -> str:
    """Return the small world's name if it has the task in this language; it has all splits."""
    _world_task(task)
    pair = task.traits.language_pair
    source, _, target = lang.partition("-")
    languages = {source, target} if pair else {lang}
    names = {*world.LANGUAGES} if task.traits.has_language else {TEXT}
    known = languages <= names and not (pair and source == target)
    if not known:
        kind = "language pair" if pair else "language"
        raise unknown_name(f"{kind} of the small world", lang, sorted(names))
    return WORLD


def all_of_world() -> Iterator[Dataset]:
    """Yield everything in the small world; translations only out of English."""
    for name in WORLD_TASKS:
        task, langs = TASKS[name], list(world.LANGUAGES)
        if task.traits.language_pair:
            langs = [f"en-{lang}" for lang in langs if lang != "en"]
        if not task.traits.has_language:
            langs = [TEXT]
        yield from (read_world(task, lang, split) for lang in langs for split in SPLITS)


def _world_task(task: Task) -> str:
    if task.name not in WORLD_TASKS:
        raise unknown_name("task of the small world", task.name, WORLD_TASKS)
    return WORLD_TASKS[task.name]
