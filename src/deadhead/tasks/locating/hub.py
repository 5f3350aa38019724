"""Data from the hub, by the sets of `hub_sets.py`, for what no local folder has.

`places.csv` says where to get the files of a task, and how to lay them out in a folder.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from deadhead.errors import DataError, MissingExtra
from deadhead.files.hub import hub_problem
from deadhead.tasks.dataset import Dataset, dataset
from deadhead.tasks.hub_sets import HubSet
from deadhead.tasks.reading.records import Unlabelled, Unusable, row_of
from deadhead.tasks.reading.retrieval import ROLES, judged_queries
from deadhead.tasks.task import Row, Task


def read_hub(hub: HubSet, task: Task, lang: str, split: str, tried: str) -> Dataset:
    """Download the rows of a split. tried: where else they are not, for messages."""
    place = on_hub(hub, task, lang, split, tried)
    config, part = hub.config_of(lang), hub.dev if split == "dev" else split
    name, hint = f"{task.name} in {lang} ({split}){tried}", _from_folder(task, lang)
    notes: Counter[str] = Counter()
    if task.traits.label_unit == "query":  # the corpus and all queries are tables of their own
        parts = {role: (role, role) for role in ROLES} | {"qrels": (config, part)}
        tables = {role: enumerate(_load(hub, *own, name, hint), 1) for role, own in parts.items()}
        places = {role: f"{hub.repository} ({role})" for role in ROLES}
        rows, documents = judged_queries(tables, places, notes)
        return dataset(task, lang, split, rows, notes=notes, files=(place,), documents=documents)
    table = _load(hub, config, part, name, hint)
    rows = [*_rows(table, task, lang, f"{hub.repository} ({config}, {split})", notes)]
    if task.traits.label_unit == "token":  # the rows of the set are the lines of one text
        rows = [Row(("".join(row.texts[0] for row in rows),))]
    return dataset(task, lang, split, rows, notes=notes, files=(place,))


def _load(hub: HubSet, config: str, part: str, name: str, hint: str) -> Any:
    """Download a table of a set. name: of the data, for messages."""
    import datasets

    offline = datasets.config.HF_HUB_OFFLINE
    try:
        datasets.config.HF_HUB_OFFLINE = offline or hub_problem() is not None  # read its cache
        return datasets.load_dataset(hub.repository, config, split=part, revision=hub.revision)
    except Exception as error:  # the hub client has its own error for each way of failing
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        where = f"{hub.repository} at {hub.revision} on the hub"
        message = f"{name} could not be downloaded from {where}: {reason}"
        raise DataError(message, hint) from error
    finally:
        datasets.config.HF_HUB_OFFLINE = offline


def on_hub(hub: HubSet, task: Task, lang: str, split: str, tried: str) -> str:
    """Say where on the hub a split should be, without a connection."""
    try:
        import datasets  # noqa: F401
    except ImportError as error:
        what = f"{task.name} in {lang} from the hub{tried}"
        raise MissingExtra("datasets", "hub", what, _from_folder(task, lang)) from error
    return f"hub:{hub.repository}@{hub.revision}:{hub.config_of(lang)}:{split}"


def _from_folder(task: Task, lang: str) -> str:
    return f"put {place_of(task, lang)} into a folder and name it with --data DIR or DEADHEAD_DATA"


def _rows(table: Any, task: Task, lang: str, where: str, notes: Counter[str]) -> Iterator[Row]:
    label_names = {}
    if task.traits.label_unit == "word":  # other tasks have the names of their numbers themselves
        for name, feature in table.features.items():  # labels are numbers or lists of them
            if labels := getattr(getattr(feature, "feature", feature), "names", None):
                label_names[name] = labels
    for number, record in enumerate(table, 1):
        try:
            yield row_of({**record, **_with_names(record, label_names)}, task, lang, notes)
        except Unlabelled as reason:
            notes[f"dropped: {reason}"] += 1
        except Unusable as reason:
            raise DataError(f"{where}, row {number}: {reason}", _from_folder(task, lang)) from None


def _with_names(record: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Replace the numbers of labels by their names; other values stay, for the reader to refuse."""
    return {
        column: [labels[i] if isinstance(i, int) and 0 <= i < len(labels) else i for i in values]
        for column, labels in names.items()
        if isinstance(values := record[column], list)
    }


def place_of(task: Task, lang: str) -> str:
    """Say what to put into a data folder for a task in a language, and where to get it."""
    places = _places()
    return places.get((task.name, lang)) or places.get((task.name, "")) or "the files"


@cache
def _places() -> dict[tuple[str, str], str]:
    with (resources.files(__package__) / "places.csv").open(encoding="utf-8") as file:
        return {
            (row["task"], row["lang"]): row["files"] + (f" ({row['from']})" if row["from"] else "")
            for row in csv.DictReader(file)
        }
