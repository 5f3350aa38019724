"""General texts that guard a model against calibration on narrow text.

    rows()                          -> every text of the pack
    draw(512, tokenizer, seed=0)    -> 512 of them, in languages that the tokenizer reads

Two thirds of them are English, the others are in fourteen more languages. They come from several
domains and are of every length. `SOURCES.md` says where each comes from.
"""

from __future__ import annotations

import json
import lzma
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PACK = Path(__file__).parent / "texts.json.xz"
JUDGED = 40  # texts show whether a tokenizer reads a language
LENGTHS = ("short", "sentence", "paragraph", "document")
MOST_UNKNOWN = 0.02  # share of unknown tokens in a language which the tokenizer reads
MOST_TOKENS = 1.9  # per byte, relative to English: more means letter by letter


class GuardText(NamedTuple):
    """A text of the pack."""

    text: str
    language: str
    domain: str
    length: str  # one of LENGTHS
    source: str


@cache
def rows() -> tuple[GuardText, ...]:
    """Return every text of the pack."""
    return tuple(GuardText(*row) for row in json.loads(lzma.decompress(PACK.read_bytes())))


def readable(tokenizer: Any) -> list[str]:
    """Return the languages which a tokenizer reads in few pieces, hardly any of them unknown."""
    unknown, density = {}, {}
    for language in sorted({row.language for row in rows()}):
        texts = [r.text for r in rows() if r.language == language and r.length != "document"]
        texts = texts[::-1][:JUDGED]
        pieces = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        tokens = [token for text in pieces for token in text]
        unknown[language] = tokens.count(tokenizer.unk_token_id) / max(1, len(tokens))
        density[language] = len(tokens) / len("".join(texts).encode())
    most = MOST_TOKENS * density["en"]
    return [a for a in unknown if unknown[a] <= MOST_UNKNOWN and density[a] <= most]


def draw(count: int, tokenizer: Any, *, seed: int = 0) -> list[GuardText]:
    """Return random texts in languages which the tokenizer reads; all of them where too few."""
    languages = readable(tokenizer)
    candidates = [row for row in rows() if row.language in languages]
    return random.Random(seed).sample(candidates, min(count, len(candidates)))


__all__ = ["LENGTHS", "GuardText", "draw", "readable", "rows"]
