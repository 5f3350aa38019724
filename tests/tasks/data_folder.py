"""Folders of data for tests: files are written, and the sizes of the splits are read back."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from deadhead.tasks import Dataset, load_data
from deadhead.tasks.task import SPLITS


def put(root: Path, files: Mapping[str, str]) -> Path:
    """Write files by their paths; one that ends in .gz is packed."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


def sizes(task: str, lang: str, root: Path, **options: str) -> list[int]:
    """The rows of train, dev and test."""
    return [len(load_data(task, lang, split, root=root, **options)) for split in SPLITS]


def words(data: Dataset) -> list[str]:
    """The first word of each row."""
    return [row.texts[0] for row in data.rows]
