"""Data from the hub, by the name in the task's table: only when no local folder has it, and only then imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, MissingExtra
from .dataset import Dataset, dataset
from .records import Row, Unlabelled, Unusable, row_of
from .table import Task

LOCAL = "put the files in a folder and name it with --data DIR or DEADHEAD_DATA"


def local(task: Task) -> str:
    """What to do for data from a folder."""
    return LOCAL.replace("the files", task.place) if task.place else LOCAL


def read_hub(task: Task, lang: str, split: str, root: Path | None = None) -> Dataset:
    """The rows of a split as the hub has it."""
    on_hub(task, lang, split, root)
    import datasets

    repository, config = _name(task, lang)
    try:
        table = datasets.load_dataset(repository, config, split=task.hub_dev if split == "dev" else split)
    except Exception as error:  # the hub client has a family of errors of its own for each way of failing
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{task.name} in {lang} ({split}) could not be had from {repository} on the hub: {first}", local(task)) from error
    notes: Counter[str] = Counter()
    rows = list(_rows(table, task, lang, f"{repository} ({config}, {split})", notes))
    return dataset(task, lang, split, rows, notes, (f"hub:{repository}:{config}:{split}",))


def on_hub(task: Task, lang: str, split: str, root: Path | None = None) -> str:
    """Where on the hub a split would be, as far as one can tell without asking it."""
    if not any(place in task.hub for place in ("{lang}", "{pair}")) and lang not in task.languages:
        raise DataError(f"the hub has {task.name} in {', '.join(task.languages)} only; met {lang!r}.", local(task))
    try:
        import datasets  # noqa: F401
    except ImportError as error:
        tried = f" (nothing of it is in {root})" if root else ""
        raise MissingExtra("datasets", "hub", f"{task.name} in {lang} from the hub{tried}", local(task)) from error
    return ":".join(("hub", *_name(task, lang), split))


def _name(task: Task, lang: str) -> tuple[str, str]:
    source, _, target = lang.partition("-")
    pair = f"{target}-{source}" if source == "en" else lang  # the hub writes de-en for either direction
    repository, _, config = task.hub.format(lang=lang, pair=pair).partition(":")
    return repository, config


def _rows(table: Any, task: Task, lang: str, where: str, notes: Counter[str]) -> Iterator[Row]:
    names = {column: found for column, feature in table.features.items() if (found := _label_names(feature))}
    if task.kind != "tag":
        names = {}  # numbers are read by the task's own labels
    for number, record in enumerate(table, 1):
        try:
            yield row_of({**record, **_named(record, names)}, task, lang, notes)
        except Unlabelled as reason:
            notes[f"dropped: {reason}"] += 1
        except Unusable as reason:
            raise DataError(f"{where}, row {number}: {reason}", LOCAL) from None


def _label_names(feature: Any) -> list[str] | None:
    """The names behind a column of label numbers, single or in a list."""
    inner = getattr(feature, "feature", feature)
    return getattr(inner, "names", None)


def _named(record: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {column: [found[i] for i in record[column]] for column, found in names.items() if isinstance(record[column], list)}
