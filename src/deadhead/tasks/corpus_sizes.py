"""The sizes of the papers' data beside those in a folder, such as Table 1 of `contributions`.

The papers' numbers are in the catalogue: the sentences of each corpus and, for slots, the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError, unknown_name
from deadhead.tasks.locating.origin import origin_of
from deadhead.tasks.reading.tags import split_tag

from .catalogue import Corpus, corpora
from .dataset import SHARE, Dataset
from .load import find_data, load_data

TYPES = "types"  # number of slot types, in the place of a split
STARTS = "document starts dropped"


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
    papers = {corpus.paper for corpus in corpora()}
    if paper not in papers:
        raise unknown_name("paper with sizes of data", paper, papers)
    if not Path(root).is_dir():
        raise DataError(f"{root}: there is no such folder.", "name a folder of data")
    for corpus in corpora():
        if corpus.paper == paper and task in (None, corpus.task):
            yield from _corpus(Path(root), corpus)


def _corpus(root: Path, corpus: Corpus) -> Iterator[Size]:
    """Yield the splits (and slot types) of one corpus."""
    known = partial(Size, task=corpus.task, language=corpus.language, corpus=corpus.name)
    for split, published in corpus.sizes.items():
        from_paper = split == "train" and corpus.from_paper
        size = known(split=split, published=published, from_paper=from_paper)
        data, problem = _read(corpus.task, corpus.language, split, root)
        ours = replace(size, note=problem) if data is None else _with_data(size, data)
        if size.from_paper and ours.difference:  # what is known about the paper's number
            ours = replace(ours, note="; ".join(filter(None, (ours.note, corpus.note))))
        yield ours
        types = re.search(r"([0-9]+) slot types", corpus.note)
        if split == "train" and types:
            tags = map(split_tag, () if data is None else data.used_labels)
            names = {tag[1] for tag in tags if tag and tag[1]}
            ours_types = None if data is None else len(names)
            yield known(split=TYPES, published=int(types[1]), ours=ours_types)


def _with_data(size: Size, data: Dataset) -> Size:
    origin = origin_of(data.files[0])
    starts = data.notes.get(STARTS, 0)
    with_starts = len(data) + starts
    note = f"{with_starts:,} with the {starts:,} document starts" if starts else ""
    if any(name.startswith(SHARE) for name in data.notes):
        note = "a share of the file, which has no such split"
    # the papers count -DOCSTART- lines as sentences
    ours = with_starts if with_starts == size.published else len(data)
    return replace(size, ours=ours, source=origin.corpus, release=origin.release, note=note)


def _read(task: str, lang: str, split: str, root: Path) -> tuple[Dataset | None, str]:
    """Return the data, or why it cannot be read; neither if it is not in the folder."""
    place = find_data(task, lang, [split], root=root)[split]
    if isinstance(place, DataError):
        return None, "" if place.message.startswith("no ") else place.message
    if place.startswith("hub:"):
        return None, ""
    try:
        return load_data(task, lang, split, root=root), ""
    except DeadheadError as problem:
        return None, problem.message
