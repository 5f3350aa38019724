"""The sentences of the small world, which the package reads from one compressed file.

    python tools/world/sentences.py       writes src/deadhead/world/sentences.json.xz

`tables/` holds the words and the grammar of each language, `grammar.py` turns facts into sentences,
`facts.py` draws the facts. In the file every sentence is there once in each language, word by word
as `form/part of speech/entity/slot`, and its number says which sentences translate it. The splits
of statements, requests, reviews and pairs list these numbers, those of reviews and pairs with a
label.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from facts import facts, pairs
from grammar import Fact, Token, language, world

from deadhead.world import LANGUAGES, SENTENCES, SENTIMENTS, SPLITS


@cache
def tokens(lang: str, fact: Fact) -> list[Token]:
    """Say a fact in a language, word by word."""
    return language(lang).tokens(fact)


def sentiment(fact: Fact) -> str:
    """Return whether a review is positive or negative: "not" reverses its adjective."""
    good = fact.role("A") in world()["opinions"]["positive"]
    return SENTIMENTS[good != ("neg" in fact.features)]


def content() -> dict[str, Any]:
    """Return what the file holds."""
    numbers: dict[Fact, int] = {}

    def number(fact: Fact) -> int:
        return numbers.setdefault(fact, len(numbers))

    lists = {
        kind: {split: [[number(fact)] for fact in facts(kind)[split]] for split in SPLITS}
        for kind in ("statement", "request")
    }
    reviews = {
        split: [[number(f), sentiment(f)] for f in facts("review")[split]] for split in SPLITS
    }
    both = {
        split: [[number(a), number(b), label] for a, b, label in pairs()[split]] for split in SPLITS
    }
    written = {lang: [_written(tokens(lang, fact)) for fact in numbers] for lang in LANGUAGES}
    return {**lists, "review": reviews, "pair": both, "sentences": written}


def _written(words: list[Token]) -> str:
    return " ".join("/".join(word[:4]) for word in words)


def write(path: Path) -> None:
    """Write the file; it has the same bytes on every machine that has the same liblzma."""
    text = json.dumps(content(), ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    write(SENTENCES)
