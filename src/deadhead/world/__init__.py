"""A small world in nine languages: parallel sentences with every kind of label, offline.

    rows("pos", "tr", "train")[0]            -> (words, tags)
    rows("nli", "ur", "dev")[0]              -> (premise, hypothesis, label)
    rows("translation", "en-de", "test")[0]  -> (source, target)

Real words and real grammar, a few thousand distinct sentences per language, the same on every
machine. `tables/` holds the words and the grammar of each language, `grammar.py` turns facts into
sentences, `facts.py` draws the facts, and `models/` holds two tiny models, pre-trained by the
programs in `tools/world` of the repository. The docs page of tasks lists the simplifications.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name

from .facts import SPLITS, facts, pairs
from .grammar import Fact, Language, Token, language, world

MODELS = Path(__file__).parent / "models"  # `encoder` and `seq2seq`, pre-trained on this world
LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
TASKS = ("pos", "ner", "slots", "nli", "sentiment", "translation")
TAGGED = {  # the kind of facts, and the tags of a token
    "pos": ("statement", "tag"),
    "ner": ("statement", "entity"),
    "slots": ("request", "slot"),
}
SENTIMENTS = ("negative", "positive")


def rows(task: str, lang: str, split: str) -> tuple[tuple[Any, ...], ...]:
    """Return the examples of a task.

    A row is (words, tags), (premise, hypothesis, label), (text, label) or, for a pair of languages
    such as `en-de`, (source, target).
    """
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    if task not in TASKS:
        raise unknown_name("task of the small world", task, TASKS)
    if task == "translation":
        return _translations(lang, split)
    if lang not in LANGUAGES:
        raise unknown_name("language of the small world", lang, LANGUAGES)
    if task == "nli":
        return tuple((text(lang, a), text(lang, b), label) for a, b, label in pairs()[split])
    if task == "sentiment":
        return tuple((text(lang, fact), sentiment(fact)) for fact in facts("review")[split])
    kind, column = TAGGED[task]
    sentences = [tokens(lang, fact) for fact in facts(kind)[split]]
    return tuple(([t.form for t in s], [getattr(t, column) for t in s]) for s in sentences)


def _translations(pair: str, split: str) -> tuple[tuple[str, str], ...]:
    source, _, target = pair.partition("-")
    if source not in LANGUAGES or target not in LANGUAGES or source == target:
        known = [f"{a}-{b}" for a in LANGUAGES for b in LANGUAGES if a != b]
        raise unknown_name("language pair of the small world", pair, known)
    both = [*facts("statement")[split], *facts("request")[split]]
    return tuple((text(source, fact), text(target, fact)) for fact in both)


@cache
def tokens(lang: str, fact: Fact) -> list[Token]:
    """Say a fact in a language, word by word."""
    return language(lang).tokens(fact)


@cache
def text(lang: str, fact: Fact) -> str:
    """Say a fact in a language, as people write it."""
    return language(lang).text(tokens(lang, fact))


def sentiment(fact: Fact) -> str:
    """Return whether a review is positive or negative: "not" reverses its adjective."""
    good = fact.role("A") in world()["opinions"]["positive"]
    return SENTIMENTS[good != ("neg" in fact.features)]


__all__ = ["LANGUAGES", "MODELS", "SENTIMENTS", "SPLITS", "TASKS", "Fact", "Language", "Token"]
__all__ += ["language", "rows", "sentiment", "text", "tokens"]
