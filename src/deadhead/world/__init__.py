"""A small world in nine languages: parallel sentences with every kind of label, so that everything works offline.

    >>> from deadhead.world import rows
    >>> rows("translation", "en-de", "test")[0]
    >>> rows("pos", "tr", "train")[0]

Real words and real grammar, a few thousand distinct sentences per language, the same on every machine.
`tables/` holds the words and the grammar of each language, `grammar.py` makes sentences of them,
`facts.py` decides what is said, and `build.py` pre-trains the two tiny models in `models/`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..errors import unknown_name
from . import facts as said
from .facts import SPLITS
from .grammar import Fact, Language, Token, language, world

LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
TASKS = ("pos", "ner", "slots", "nli", "sentiment", "translation")
SENTIMENTS = ("negative", "positive")


@cache
def rows(task: str, lang: str, split: str) -> tuple[tuple[Any, ...], ...]:
    """The examples of a task: (words, tags), (premise, hypothesis, label), (text, label) or, for `en-de`, (source, target)."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    if task not in TASKS:
        raise unknown_name("task of the small world", task, TASKS)
    if task == "translation":
        return _translations(lang, split)
    if lang not in LANGUAGES:
        raise unknown_name("language of the small world", lang, LANGUAGES)
    if task == "nli":
        return tuple((text(lang, one), text(lang, other), label) for one, other, label in said.pairs()[split])
    if task == "sentiment":
        return tuple((text(lang, fact), sentiment(fact)) for fact in said.facts("review")[split])
    kind, column = {"pos": ("statement", "tag"), "ner": ("statement", "entity"), "slots": ("request", "slot")}[task]
    sentences = [tokens(lang, fact) for fact in said.facts(kind)[split]]
    return tuple(([token.form for token in found], [getattr(token, column) for token in found]) for found in sentences)


def _translations(pair: str, split: str) -> tuple[tuple[str, str], ...]:
    source, _, target = pair.partition("-")
    if source not in LANGUAGES or target not in LANGUAGES or source == target:
        known = [f"{a}-{b}" for a in LANGUAGES for b in LANGUAGES if a != b]
        raise unknown_name("language pair of the small world", pair, known)
    return tuple((text(source, fact), text(target, fact)) for kind in ("statement", "request") for fact in said.facts(kind)[split])


@cache
def tokens(lang: str, fact: Fact) -> list[Token]:
    """A fact in a language, word by word."""
    return language(lang).tokens(fact)


@cache
def text(lang: str, fact: Fact) -> str:
    """A fact in a language, as people write it."""
    return language(lang).text(tokens(lang, fact))


def sentiment(fact: Fact) -> str:
    """Whether a review is good or bad: "not" turns the word around."""
    good = fact.role("A") in world()["opinions"]["positive"]
    return SENTIMENTS[good != ("neg" in fact.features)]


__all__ = ["LANGUAGES", "SENTIMENTS", "SPLITS", "TASKS", "Fact", "Language", "Token", "language", "rows", "sentiment", "text", "tokens"]
