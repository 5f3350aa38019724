"""The sizes of the papers' data beside those of the data in a folder: Table 1 of `contributions` is such a comparison.

What a paper says is in its `languages.csv`: the numbers of sentences of each corpus and, for slots, of slot types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError, unknown_name
from deadhead.tasks.locating.folder import index
from deadhead.tasks.locating.releases import release_of
from deadhead.tasks.reading.tags import split_tag
from deadhead.tasks.splits import split_of

from .dataset import SHARE, Dataset
from .languages import facts
from .load import find_data, load_data
from .registry import TASKS
from .splits import SPLITS

TYPES = "types"  # of slots, in the place of a split
STARTS = "document starts dropped"
# How folders of the papers' corpora are called, in small letters.
FOLDERS = {"CoNLL-2003": "conll2003", "CoNLL-2002": "conll2002", "AQMAR": "aqmar", "Ben Mordecai": "mordecai", "People's": "people",
           "IOB2Corpus": "iob2corpus", "MK-PUCIT": "pucit", "Arman": "arman"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Size:
    """One number of a paper, and ours."""

    task: str
    language: str
    split: str  # or `types`: the number of slot types
    corpus: str  # the paper's
    published: int
    from_paper: bool = True  # False: a figure of the corpus that the paper does not print
    ours: int | None = None  # None: not in the folder
    source: str = ""  # the corpus that was read
    release: str = ""  # of Universal Dependencies
    note: str = ""

    @property
    def difference(self) -> int | None:
        return None if self.ours is None else self.ours - self.published

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference}


def sizes(root: str | Path, paper: str, task: str | None = None) -> Iterator[Size]:
    """The numbers of a paper in its order, each with ours."""
    rows = [row for row in facts() if row["paper"] == paper and row["dataset"]]
    if not rows:
        raise unknown_name(
            "paper with sizes of data",
            paper,
            {row["paper"] for row in facts() if row["paper"] and row["dataset"]},
        )
    if not Path(root).is_dir():
        raise DataError(f"{root}: there is no such folder.", "name a folder of data")
    for row in rows:
        if task in (None, _task_of(row["dataset"])):
            yield from _compared(Path(root), row)


def _task_of(corpus: str) -> str:
    return (
        "pos"
        if corpus.startswith("UD_")
        else {"XNLI": "xnli", "MultiATIS++": "slots"}.get(corpus, "ner")
    )


def _compared(root: Path, row: dict[str, str]) -> Iterator[Size]:
    """The splits (and slot types) of one corpus."""
    task, lang, corpus = _task_of(row["dataset"]), row["code"], row["dataset"]
    source = _source(root, task, lang, corpus)
    for split in SPLITS:
        if not row[split]:
            continue
        printed = split == "train" and "paper table 1" in row["size_source"]
        base = Size(
            task=task,
            language=lang,
            split=split,
            corpus=corpus,
            published=int(row[split]),
            from_paper=printed,
        )
        data, problem = _read(root, task, lang, split, source)
        size = base if data is None and not problem else _size(base, data, problem)
        if printed and size.difference:  # what is known about the paper's number
            size = replace(size, note="; ".join(filter(None, (size.note, row["note"]))))
        yield size
        types = re.search(r"([0-9]+) slot types", row["note"])
        if split == "train" and types:
            found = (
                None
                if data is None
                else len({tag[1] for label in data.found if (tag := split_tag(label)) and tag[1]})
            )
            yield Size(
                task=task,
                language=lang,
                split=TYPES,
                corpus=corpus,
                published=int(types[1]),
                ours=found,
            )


def _size(base: Size, data: Dataset | None, problem: str) -> Size:
    if data is None:
        return replace(base, note=problem)
    file = Path(data.files[0])
    source = file.parent.name if split_of(file.parent.name) is None else file.parent.parent.name
    starts = data.notes.get(STARTS, 0)
    with_starts = len(data) + starts
    note = f"{with_starts:,} with the {starts:,} document starts" if starts else ""
    if any(name.startswith(SHARE) for name in data.notes):
        note = "a share of the file, which has no such split"
    ours = (
        with_starts if with_starts == base.published else len(data)
    )  # the papers count -DOCSTART- lines as sentences
    release = release_of(file) if base.task == "pos" else ""
    return replace(base, ours=ours, source=source, release=release, note=note)


def _source(root: Path, task: str, lang: str, corpus: str) -> str | None:
    """The folder of the paper's corpus, if there is one; None for the default."""
    word = (
        corpus.split(" ")[0].lower()
        if task == "pos"
        else next((name for start, name in FOLDERS.items() if corpus.startswith(start)), "")
    )
    entries = [
        entry for entry in index(root, TASKS[task]) if entry.task == task and entry.lang == lang
    ]
    if not word or any(entry.default and entry.split == "train" for entry in entries):
        return None  # a manifest, or a folder with one corpus, says which is meant
    return next(
        (
            entry.source
            for entry in entries
            if word in re.sub(r"[-_]" if task == "ner" else r"$^", "", entry.source.lower())
        ),
        None,
    )


def _read(
    root: Path, task: str, lang: str, split: str, source: str | None
) -> tuple[Dataset | None, str]:
    """The data, or why it cannot be read; neither where it is not in the folder."""
    place = find_data(task, lang, [split], root=root, source=source)[split]
    if isinstance(place, DataError):
        missing = place.message.startswith("no ")
        return None, "" if missing else place.message
    if place.startswith("hub:"):
        return None, ""
    try:
        return load_data(task, lang, split, root=root, source=source), ""
    except DeadheadError as problem:
        return None, problem.message
