"""Data from the hub, by the sets of `hubsets.py`: only when no local folder has it, and only then imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, MissingExtra
from deadhead.tasks.dataset import Dataset, dataset
from deadhead.tasks.hub_sets import HubSet, hub_set
from deadhead.tasks.reading.records import Unlabelled, Unusable, row_of
from deadhead.tasks.task import Row, Task

from .places import place_of


def local(task: Task, lang: str) -> str:
    """What to do for data from a folder."""
    return f"put {place_of(task, lang)} into a folder and name it with --data DIR or DEADHEAD_DATA"


def read_hub(
    task: Task, lang: str, split: str, source: str | None = None, root: Path | None = None
) -> Dataset:
    """The rows of a split as the hub has it."""
    place = on_hub(task, lang, split, source, root)
    import datasets

    found = _set(task, lang, source)
    config = found.config_of(lang)
    try:
        table = datasets.load_dataset(
            found.repository,
            config,
            split=found.dev if split == "dev" else split,
            revision=found.revision,
        )
    except (
        Exception
    ) as error:  # the hub client has a family of errors of its own for each way of failing
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{task.name} in {lang} ({split}) could not be had from {found.repository} at {found.revision} on the hub: {first}",
            local(task, lang),
        ) from error
    notes: Counter[str] = Counter()
    rows = list(_rows(table, task, lang, f"{found.repository} ({config}, {split})", notes))
    return dataset(task, lang, split, rows, notes, (place,))


def on_hub(
    task: Task, lang: str, split: str, source: str | None = None, root: Path | None = None
) -> str:
    """Where on the hub a split would be, as far as one can tell without asking it."""
    found = _set(task, lang, source)
    try:
        import datasets  # noqa: F401
    except ImportError as error:
        tried = f" (nothing of it is in {root})" if root else ""
        raise MissingExtra(
            "datasets", "hub", f"{task.name} in {lang} from the hub{tried}", local(task, lang)
        ) from error
    return f"hub:{found.repository}@{found.revision}:{found.config_of(lang)}:{split}"


def _set(task: Task, lang: str, source: str | None) -> HubSet:
    found = hub_set(task.hub, lang, source)
    if found is None:
        known = ", ".join(code for one in task.hub if one.unasked for code in one.languages or ())
        raise DataError(
            f"the hub has {task.name} in {known} only; got {lang!r}.", local(task, lang)
        )
    return found


def _rows(table: Any, task: Task, lang: str, where: str, notes: Counter[str]) -> Iterator[Row]:
    names = {
        column: labels
        for column, feature in table.features.items()
        if (labels := _label_names(feature))
    }
    if task.kind != "tag":
        names = {}  # numbers are read by the task's own labels
    for number, record in enumerate(table, 1):
        try:
            yield row_of({**record, **_named(record, names)}, task, lang, notes)
        except Unlabelled as reason:
            notes[f"dropped: {reason}"] += 1
        except Unusable as reason:
            raise DataError(f"{where}, row {number}: {reason}", local(task, lang)) from None


def _label_names(feature: Any) -> list[str] | None:
    """The names behind a column of label numbers, single or in a list."""
    inner = getattr(feature, "feature", feature)
    return getattr(inner, "names", None)


def _named(record: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {
        column: [
            labels[i] if isinstance(i, int) and 0 <= i < len(labels) else i for i in record[column]
        ]
        for column, labels in names.items()
        if isinstance(record[column], list)
    }
