"""A dataset: rows, their labels, what was dropped on the way, and a fingerprint of it all.

The functions below make datasets out of datasets (shares, parts, one after another, without
repetitions); none changes the one it is given, and each counts what it leaves out.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from deadhead.errors import DataError
from deadhead.tasks.task import Row

from .registry import task_of
from .task import Task

SPLITS = ("train", "dev", "test")
SHARE = "rows of the file not in this share"


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """The rows of one split (or of several, one after the other)."""

    task: Task
    lang: str
    split: str
    rows: Sequence[Row]
    labels: tuple[str, ...]  # in the order of their numbers
    notes: Mapping[str, int] = field(
        default_factory=dict
    )  # what was dropped, cut or repaired, counted
    files: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        told = "".join(f", {name}: {n}" for name, n in self.notes.items())
        return f"Dataset({self.task.name} {self.lang} {self.split}: {len(self)} rows, {len(self.labels)} labels{told})"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rows and labels: equal data has it equal, however it was packed."""
        digest = hashlib.sha256(json.dumps([self.task.kind, self.labels]).encode())
        for row in self.rows:
            digest.update(
                json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode(
                    "utf-8", "surrogatepass"
                )
            )
        return digest.hexdigest()[:16]

    @cached_property
    def found(self) -> tuple[str, ...]:
        """The labels that occur in the rows, in the order of `labels`."""
        seen = {label for row in self.rows for label in row.labels}
        return tuple(label for label in self.labels if label in seen)


def dataset(
    task: Task | str,
    lang: str,
    split: str,
    rows: Iterable[Row],
    notes: Mapping[str, int] | None = None,
    files: Sequence[str] = (),
) -> Dataset:
    """A dataset of rows in hand; labels that the task leaves open are those found, `O` first."""
    task, rows = task_of(task), list(rows)
    labels = task.labels or tuple(
        sorted(
            {label for row in rows for label in row.labels}, key=lambda name: (name != "O", name)
        )
    )
    return Dataset(
        task,
        lang,
        split,
        rows,
        labels,
        {name: n for name, n in (notes or {}).items() if n},
        tuple(files),
    )


def share(data: Dataset, split: str, ends: tuple[float, float, float]) -> Dataset:
    """The share of a dataset, in file order, that is called train, dev or test when it is cut at these ends."""
    at = SPLITS.index(split)
    start = round(len(data) * ends[at - 1]) if at else 0
    stop = round(len(data) * ends[at])
    notes = {**data.notes, f"{SHARE} ({split})": len(data) - (stop - start)}
    return replace(data, split=split, rows=data.rows[start:stop], notes=notes)


def concatenate(several: Sequence[Dataset]) -> Dataset:
    """Datasets of one kind one after the other, in the order given."""
    if not several:
        raise DataError("no dataset to put together.", "name at least one language")
    kinds = {data.task.kind for data in several}
    if len(kinds) > 1:
        raise DataError(
            f"data of different kinds cannot be put together: {', '.join(sorted(kinds))}."
        )
    notes: Counter[str] = Counter()
    for data in several:
        notes.update(data.notes)
    labels = tuple(dict.fromkeys(label for data in several for label in data.labels))
    langs, splits = (
        tuple(dict.fromkeys(getattr(data, name) for data in several)) for name in ("lang", "split")
    )
    rows = [row for data in several for row in data.rows]
    files = tuple(name for data in several for name in data.files)
    return Dataset(
        several[0].task, "+".join(langs), "+".join(splits), rows, labels, dict(notes), files
    )


def distinct(data: Dataset, *others: Dataset) -> Dataset:
    """The dataset without rows whose texts came before, here or in the others."""
    seen = {row.texts for other in others for row in other.rows}
    within, across, rows = 0, 0, []
    mine: set[tuple[str, ...]] = set()
    for row in data.rows:
        if row.texts in seen:
            across += 1
        elif row.texts in mine:
            within += 1
        else:
            rows.append(row)
        mine.add(row.texts)
    counted = {"repeated rows dropped": within, "rows of other splits dropped": across}
    return replace(
        data, rows=rows, notes={**data.notes, **{name: n for name, n in counted.items() if n}}
    )


def cut_parts(data: Dataset, of: int = 10, seed: int = 42) -> tuple[Dataset, ...]:
    """Disjoint random parts of equal size, each in file order; the same on every machine."""
    if of < 1:
        raise DataError(f"{of} parts.", "ask for 1 or more")
    order = shuffled(len(data), f"parts/{seed}")
    ends = [round(len(data) * i / of) for i in range(of + 1)]
    return tuple(
        _pick(data, order[a:b], f"rows outside part {k} of {of}")
        for k, (a, b) in enumerate(pairwise(ends), 1)
    )


def first_parts(data: Dataset, parts: int, of: int = 10, seed: int = 42) -> Dataset:
    """The first so many of the random parts, in file order: what 3 parts hold, 4 hold too."""
    if not 1 <= parts <= of:
        raise DataError(f"{parts} parts of {of}.", f"ask for 1 to {of}")
    order = shuffled(len(data), f"parts/{seed}")
    return _pick(
        data,
        order[: round(len(data) * parts / of)],
        f"rows outside the first {parts} of {of} parts",
    )


def draw_examples(data: Dataset, most: int | None, seed: int = 0) -> Dataset:
    """At most so many rows, drawn at random and in file order; how many are left out is noted. None is all of them."""
    if most is None or most >= len(data):
        return data
    if most < 1:
        raise DataError(f"at most {most} examples leave no data.", "give 1 or more")
    return _pick(
        data, shuffled(len(data), f"rank/{seed}")[:most], "rows left out by --max-examples"
    )


def shuffled(size: int, seed: str) -> list[int]:
    """The numbers below `size` in an order that depends on nothing but the seed."""
    draw = random.Random(seed)
    keys = [
        draw.random() for _ in range(size)
    ]  # Python promises the stream of `random()`, not that of `shuffle`
    return sorted(range(size), key=keys.__getitem__)


def _pick(data: Dataset, numbers: Sequence[int], note: str) -> Dataset:
    rows = [data.rows[i] for i in sorted(numbers)]
    return replace(data, rows=rows, notes={**data.notes, note: len(data) - len(rows)})
