"""The three splits, and the names that corpora give them."""

from __future__ import annotations

import re

SPLITS = ("train", "dev", "test")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(
        ("dev", "devel", "development", "valid", "validation", "val", "eval", "testa"), "dev"
    ),
    **dict.fromkeys(("test", "testb"), "test"),
}


def split_of(word: str) -> str | None:
    """Return the split a word names, with or without a number after it (`test2014`)."""
    return SPLIT_NAMES.get(re.sub(r"[0-9]+$", "", word.lower()))
