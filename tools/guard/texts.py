"""Texts of the guard, and how pages and long texts are cut into them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

OTHERS = ("de", "es", "fr", "ru", "zh", "ar", "hi", "ja", "pt", "it", "nl", "tr", "sw", "vi")
WORDS = {"short": (4, 15), "sentence": (16, 40), "paragraph": (60, 150), "document": (250, 420)}
ENDS = re.compile(
    r"(?<=[.!?。！？।])(?<!\bSt\.)(?<!\b[MD]r\.)(?<!Mrs\.)(?<!\b[A-Z]\.)\s+|(?<=[。！？])"
)
SHARES = {"paragraph": 3, "short": 2, "sentence": 2, "document": 3}  # pieces of a long text
UNWANTED = re.compile(
    r"\b(sex|rape|kill|murder|nazi|jew|whore|drug|nude|naked|negro|savage|cannibal|idiot|stupid"
    r"|hell|damn|slut|breast|penis|vagina|prostitut|suicid|terroris|porn|slave|homosexual|gay"
    r"|lesbian|sodom|copulat|fuck"
    r"|god|allah|christ|jesus|muslim|islam|hindu)\w*|{|%|@|http|www|<|>|\\|\||_|\*|=",
    re.IGNORECASE,
)


class Text(NamedTuple):
    """A text with what is known about it."""

    text: str
    language: str
    domain: str
    source: str


def words(text: str, language: str) -> int:
    """Count the words of a text."""
    return len(text) // 2 if language in ("zh", "ja") else len(text.split())


def length_of(text: str, language: str) -> str:
    """Return the length class of a text, or nothing where it belongs to none."""
    count = words(text, language)
    return next((name for name, (low, high) in WORDS.items() if low <= count <= high), "")


def sentences(text: str) -> list[str]:
    """Split a text into sentences."""
    return [s.strip() for s in ENDS.split(text) if s.strip()]


def pieces(
    paragraphs: Iterable[str], language: str, shares: dict[str, int] = SHARES
) -> Iterator[str]:
    """Cut a long text into pieces of every length, none of which overlap."""
    blank = "" if language in ("zh", "ja") else " "
    every = [s for p in paragraphs for s in sentences(p)]
    turn = random.Random("".join(every[:1]))  # every page begins with a piece of another length
    length, piece, count = turn.choices(list(shares), list(shares.values()))[0], [], 0
    for sentence in every:
        piece.append(sentence)
        count += words(sentence, language)
        low, high = WORDS[length]
        if count >= low:
            if count <= high:
                yield blank.join(piece)
            length = turn.choices(list(shares), list(shares.values()))[0]
            piece, count = [], 0


def unmarked(block: str) -> str:
    """Return a paragraph of reStructuredText or Markdown without its marks."""
    block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
    block = re.sub(r":[a-z:+-]+:`~?([^`<]*?)(?:\s*<[^`]*)?`", r"\1", block)
    block = re.sub(r"`([^`<]*?)\s*<[^`]*>`_+", r"\1", block.replace("``", ""))
    return " ".join(re.sub(r"[`*]|_\b", "", block).replace("--", "–").split())


def prose(rst: str) -> Iterator[str]:
    """Return the paragraphs of a page that are plain sentences."""
    for block in re.split(r"\n\s*\n", rst):
        starts = re.match(r"[A-Z]", block)
        marked = re.search(r"^[=\-~^#+|]{3}|::|^\s", block, re.M)
        if starts and not marked and (text := unmarked(block)).endswith((".", "?", "!")):
            yield text
