"""The sizes of the papers' data beside those in a folder, such as Table 1 of `contributions`.

The papers' numbers are in `languages.csv`: the sentences of each corpus and, for slots, the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError, unknown_name
from deadhead.tasks.locating.folder import release_of, survey
from deadhead.tasks.reading.tags import split_tag

from .dataset import SHARE, Dataset
from .languages import facts
from .load import find_data, load_data
from .registry import TASKS
from .task import SPLITS, split_of

TYPES = "types"  # number of slot types, in the place of a split
STARTS = "document starts dropped"
# fmt: off
FOLDERS = {  # how the folders of the papers' corpora are called
    "CoNLL-2003": "conll2003", "CoNLL-2002": "conll2002", "AQMAR": "aqmar",
    "Ben Mordecai": "mordecai", "People's": "people", "IOB2Corpus": "iob2corpus",
    "MK-PUCIT": "pucit", "Arman": "arman",
}
# fmt: on


@dataclass(frozen=True, kw_only=True)
class Size:
    """One number of a paper, and ours."""

    task: str
    language: str
    split: str  # or `types`: the number of slot types
    corpus: str  # the paper's
    published: int
    from_paper: bool = True  # False: a number of the corpus that the paper does not print
    ours: int | None = None  # None: not in the folder
    source: str = ""  # the corpus that was read
    release: str = ""  # the release of Universal Dependencies
    note: str = ""

    @property
    def difference(self) -> int | None:
        return None if self.ours is None else self.ours - self.published

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference}


def sizes(root: str | Path, paper: str, task: str | None = None) -> Iterator[Size]:
    """Yield the numbers of a paper in its order, each with ours."""
    rows = [row for row in facts() if row["paper"] and row["dataset"]]
    papers = {row["paper"] for row in rows}
    if paper not in papers:
        raise unknown_name("paper with sizes of data", paper, papers)
    if not Path(root).is_dir():
        raise DataError(f"{root}: there is no such folder.", "name a folder of data")
    for row in rows:
        if row["paper"] == paper and task in (None, _task_of(row["dataset"])):
            yield from _corpus(Path(root), row)


def _task_of(corpus: str) -> str:
    if corpus.startswith("UD_"):
        return "pos"
    return {"XNLI": "xnli", "MultiATIS++": "slots"}.get(corpus, "ner")


def _corpus(root: Path, row: Mapping[str, str]) -> Iterator[Size]:
    """Yield the splits (and slot types) of one corpus."""
    task, lang, corpus = _task_of(row["dataset"]), row["code"], row["dataset"]
    source = _source(root, task, lang, corpus)
    known = partial(Size, task=task, language=lang, corpus=corpus)
    for split in (split for split in SPLITS if row[split]):
        from_paper = split == "train" and "paper table 1" in row["size_source"]
        size = known(split=split, published=int(row[split]), from_paper=from_paper)
        data, problem = _read(task, lang, split, root=root, source=source)
        ours = replace(size, note=problem) if data is None else _with_data(size, data)
        if size.from_paper and ours.difference:  # what is known about the paper's number
            ours = replace(ours, note="; ".join(filter(None, (ours.note, row["note"]))))
        yield ours
        types = re.search(r"([0-9]+) slot types", row["note"])
        if split == "train" and types:
            tags = map(split_tag, () if data is None else data.used_labels)
            names = {tag[1] for tag in tags if tag and tag[1]}
            ours_types = None if data is None else len(names)
            yield known(split=TYPES, published=int(types[1]), ours=ours_types)


def _with_data(size: Size, data: Dataset) -> Size:
    file = Path(data.files[0])
    folder = file.parent if split_of(file.parent.name) is None else file.parent.parent
    starts = data.notes.get(STARTS, 0)
    with_starts = len(data) + starts
    note = f"{with_starts:,} with the {starts:,} document starts" if starts else ""
    if any(name.startswith(SHARE) for name in data.notes):
        note = "a share of the file, which has no such split"
    # the papers count -DOCSTART- lines as sentences
    ours = with_starts if with_starts == size.published else len(data)
    release = release_of(file) if size.task == "pos" else ""
    return replace(size, ours=ours, source=folder.name, release=release, note=note)


def _source(root: Path, task: str, lang: str, corpus: str) -> str | None:
    """Return the folder of the paper's corpus, if there is one; None for the default."""
    if task == "pos":
        word = corpus.split(" ")[0].lower()
    else:
        word = next((name for start, name in FOLDERS.items() if corpus.startswith(start)), "")
    entries = [e for e in survey(root, TASKS[task])[0] if (e.task, e.lang) == (task, lang)]
    if not word or any(e.default and e.split == "train" for e in entries):
        return None  # a manifest, or a folder with one corpus, says which is meant
    for source in (e.source for e in entries):
        name = source.lower()
        if word in (re.sub(r"[-_]", "", name) if task == "ner" else name):
            return source
    return None


def _read(task: str, lang: str, split: str, **where: Any) -> tuple[Dataset | None, str]:
    """Return the data, or why it cannot be read; neither if it is not in the folder."""
    place = find_data(task, lang, [split], **where)[split]
    if isinstance(place, DataError):
        return None, "" if place.message.startswith("no ") else place.message
    if place.startswith("hub:"):
        return None, ""
    try:
        return load_data(task, lang, split, **where), ""
    except DeadheadError as problem:
        return None, problem.message
