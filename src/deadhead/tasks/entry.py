"""One split of one corpus on disk, and the names that corpora give to splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPLIT_NAMES = dict.fromkeys(("dev", "valid", "validation", "val", "testa"), "dev") | {"train": "train", "test": "test", "testb": "test"}


@dataclass(frozen=True)
class Entry:
    """The files of one split of one corpus."""

    task: str  # as the folder calls it: `slots`, `slots-atis`
    lang: str
    split: str
    source: str  # the corpus
    format: str
    files: Mapping[str, Path]  # by field, where one split is several line-parallel files; "" for the only one
    default: bool = True  # meant when no source is named
    partition: str | None = None  # the part of a file that holds all splits (MASSIVE)

    @property
    def first(self) -> Path:
        return next(iter(self.files.values()))
