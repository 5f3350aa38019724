"""A dataset: rows, their labels, what was dropped on the way, and a fingerprint of it all.

The functions build new datasets (shares, parts, concatenations, without repetitions). None changes
its argument, and each counts what it leaves out.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from deadhead.errors import DataError

from .registry import task_of
from .task import SPLITS, Row, Task

SHARE = "rows of the file not in this share"
QUERY, DOCUMENT = "query", "document"  # roles of texts, which encoders may have prompts for


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Dataset:
    """The rows of one split (or of several, one after the other)."""

    task: Task
    lang: str
    split: str
    rows: Sequence[Row]
    labels: tuple[str, ...]  # in the order of their numbers
    notes: Mapping[str, int] = field(default_factory=dict)  # counts of dropped or repaired rows
    files: tuple[str, ...] = ()
    draw: tuple[int, str] | None = None  # the windows that `encode` draws of a text, and the seed
    documents: Mapping[str, str] = field(default_factory=dict)  # for retrieval: id -> text

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        notes = "".join(f", {name}: {n}" for name, n in self.notes.items())
        name = f"{self.task.name} {self.lang} {self.split}"
        return f"Dataset({name}: {len(self)} rows, {len(self.labels)} labels{notes})"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rows and labels: equal data has it equal, however it was packed."""
        digest = hashlib.sha256(json.dumps([self.task.kind, self.labels]).encode())
        for row in self.rows:
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            digest.update(text.encode("utf-8", "surrogatepass"))
        if self.draw is not None:
            digest.update(json.dumps(self.draw).encode())
        for item in self.documents.items():
            digest.update(json.dumps(item).encode())
        return digest.hexdigest()[:16]

    @cached_property
    def single_texts(self) -> list[tuple[str, str]]:
        """The texts that a sentence encoder reads, each once in each role: rows, then documents."""
        role = QUERY if self.documents else ""
        texts = [(role, text) for row in self.rows for text in row.texts]
        documents = [(DOCUMENT, text) for text in self.documents.values()]
        return list(dict.fromkeys([*texts, *documents]))

    @cached_property
    def used_labels(self) -> tuple[str, ...]:
        """The labels that occur in the rows, in the order of `labels`."""
        used = {label for row in self.rows for label in row.labels}
        return tuple(label for label in self.labels if label in used)


def dataset(
    task: Task | str,
    lang: str,
    split: str,
    rows: Iterable[Row],
    *,
    notes: Mapping[str, int] | None = None,
    files: Sequence[str] = (),
    documents: Mapping[str, str] | None = None,
) -> Dataset:
    """Build a dataset from rows.

    If the task does not fix its labels, they are those of the rows, sorted, with `O` first.
    """
    task, rows = task_of(task), list(rows)
    counts = Counter(notes)
    names: set[str] = set()
    if task.traits.label_unit == "span":  # an id and answers, which are no names
        counts["questions with the id of another"] += len(rows) - len({r.labels[0] for r in rows})
    elif not task.labels and not task.traits.of_embeddings:
        names = {label for row in rows for label in row.labels}
    return Dataset(
        task=task,
        lang=lang,
        split=split,
        rows=rows,
        labels=task.labels or tuple(sorted(names, key=lambda name: (name != "O", name))),
        notes={name: n for name, n in counts.items() if n},
        files=tuple(files),
        documents=documents or {},
    )


def share(data: Dataset, split: str, ends: tuple[float, float, float]) -> Dataset:
    """Return the part of a dataset, in file order, that is `split` if it is cut at these ends."""
    i = SPLITS.index(split)
    start, stop = (round(len(data) * end) for end in (0.0, *ends)[i : i + 2])
    notes = {**data.notes, f"{SHARE} ({split})": len(data) - (stop - start)}
    return replace(data, split=split, rows=data.rows[start:stop], notes=notes)


def concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """Put datasets of one kind one after the other."""
    if not datasets:
        raise DataError("no dataset to concatenate.", "name at least one language")
    kinds = sorted({data.task.kind for data in datasets})
    if len(kinds) > 1:
        raise DataError(f"data of different kinds cannot be concatenated: {', '.join(kinds)}.")
    notes: Counter[str] = Counter()
    for data in datasets:
        notes.update(data.notes)
    return Dataset(
        task=datasets[0].task,
        lang="+".join(dict.fromkeys(data.lang for data in datasets)),
        split="+".join(dict.fromkeys(data.split for data in datasets)),
        rows=[row for data in datasets for row in data.rows],
        labels=tuple(dict.fromkeys(label for data in datasets for label in data.labels)),
        notes=dict(notes),
        files=tuple(name for data in datasets for name in data.files),
        draw=datasets[0].draw,
        documents={id: text for data in datasets for id, text in data.documents.items()},
    )


def distinct(data: Dataset, *others: Dataset) -> Dataset:
    """Drop rows whose texts came before, here or in the others."""
    elsewhere = {row.texts for other in others for row in other.rows}
    before = set()
    counts, rows = {"repeated rows dropped": 0, "rows of other splits dropped": 0}, []
    for row in data.rows:
        if row.texts in elsewhere:
            counts["rows of other splits dropped"] += 1
        elif row.texts in before:
            counts["repeated rows dropped"] += 1
        else:
            rows.append(row)
        before.add(row.texts)
    counts = {name: n for name, n in counts.items() if n}
    return replace(data, rows=rows, notes={**data.notes, **counts})


def first_parts(data: Dataset, parts: int, of: int = 10, seed: int = 42) -> Dataset:
    """Return the first N random parts together, in file order; 4 parts contain the first 3."""
    if not 1 <= parts <= of:
        raise DataError(f"`parts` expects 1 to {of}, got {parts}.", f"ask for 1 to {of}")
    order = shuffled(len(data), f"parts/{seed}")
    note = f"rows outside the first {parts} of {of} parts"
    return _pick(data, order[: round(len(data) * parts / of)], note)


def draw_examples(data: Dataset, most: int | None, seed: int | str = 0) -> Dataset:
    """Return at most N rows, chosen at random and in file order; None keeps all.

    The examples of a text are its windows, which `encode` draws.
    """
    if most is not None and most < 1:
        raise DataError(f"expected a number of examples from 1, got {most}.", "for instance 100")
    if most is not None and data.task.traits.label_unit == "token":
        return replace(data, draw=(most, f"rank/{seed}"))
    if most is None or most >= len(data):
        return data
    order = shuffled(len(data), f"rank/{seed}")
    return _pick(data, order[:most], "rows left out at random")


def draw_documents(data: Dataset, most: int | None, seed: int | str = 0) -> Dataset:
    """Return the data with at most N documents, to fit to; scores need all of them."""
    if most is None or most >= len(data.documents):
        return data
    items = list(data.documents.items())
    drawn = sorted(shuffled(len(items), f"documents/{seed}")[:most])
    notes = {**data.notes, "documents left out at random": len(items) - most}
    return replace(data, documents=dict(items[i] for i in drawn), notes=notes)


def shuffled(size: int, seed: str) -> list[int]:
    """Return the numbers below `size` in an order that depends on nothing but the seed."""
    rng = random.Random(seed)
    # Python guarantees the stream of `random()`, not that of `shuffle`
    keys = [rng.random() for _ in range(size)]
    return sorted(range(size), key=keys.__getitem__)


def _pick(data: Dataset, numbers: Sequence[int], note: str) -> Dataset:
    rows = [data.rows[i] for i in sorted(numbers)]
    return replace(data, rows=rows, notes={**data.notes, note: len(data) - len(rows)})
