"""A small world in nine languages: parallel sentences with every kind of label, so that everything works offline.

    rows("pos", "tr", "train")[0]            -> (words, tags)
    rows("nli", "ur", "dev")[0]              -> (premise, hypothesis, label)
    rows("translation", "en-de", "test")[0]  -> (source, target)

Real words and real grammar, a few thousand distinct sentences per language, the same on every machine.
`tables/` holds the words and the grammar of each language, `grammar.py` makes sentences of them,
`facts.py` decides what is said, and `build.py` pre-trains the two tiny models in `models/`.

What is simplified, knowingly:
- The world is small: some 130 concepts, statements of one clause, third person only, past, future and (for
  living and working) present; requests are in the familiar singular. Some facts are grammatical but odd
  (a teacher may sell a hospital). No native speaker has reviewed the tables yet.
- Words are cut as they are written: German `im`, Spanish `al` and `Recuérdame`, Arabic `ستشتري` and `بمكالمة`,
  Turkish `iyiydi` and `Berlin'deki` are one token with the tag of their main part, where Universal
  Dependencies splits them. Names in all languages are PROPN; days are PROPN or NOUN as each language's treebank has them.
- Arabic is unvocalised. Articles are only where a language has them: the Swahili, Hindi and Urdu (and, of people,
  Chinese) for "the doctor" is bare, and Swahili does not tell "a book" from "the book". The Chinese and English
  tenses do not map one to one: a Chinese review has no tense.
- Turkish verbs stay singular after plural subjects (allowed, and usual for things); objects that are denied have no
  `bir`. Hindi and Urdu objects never take `ko` unless they are people. "Visit" is "meet" there, "the food" is "the
  dish" in Chinese, and Swahili says some adjectives by a phrase with `-a`.
- Swahili hours are counted from sunrise, as people do: seven o'clock is `saa 1`.
- An entailment holds under the usual reading that both sentences speak of one event.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name

from . import facts as said
from .facts import SPLITS
from .grammar import Fact, Language, Token, language, world

MODELS = Path(__file__).parent / "models"  # `encoder` and `seq2seq`, pre-trained on this world
LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
TASKS = ("pos", "ner", "slots", "nli", "sentiment", "translation")
SENTIMENTS = ("negative", "positive")


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
        return tuple(
            (text(lang, one), text(lang, other), label) for one, other, label in said.pairs()[split]
        )
    if task == "sentiment":
        return tuple((text(lang, fact), sentiment(fact)) for fact in said.facts("review")[split])
    kind, column = {
        "pos": ("statement", "tag"),
        "ner": ("statement", "entity"),
        "slots": ("request", "slot"),
    }[task]
    sentences = [tokens(lang, fact) for fact in said.facts(kind)[split]]
    return tuple(
        ([token.form for token in found], [getattr(token, column) for token in found])
        for found in sentences
    )


def _translations(pair: str, split: str) -> tuple[tuple[str, str], ...]:
    source, _, target = pair.partition("-")
    if source not in LANGUAGES or target not in LANGUAGES or source == target:
        known = [f"{a}-{b}" for a in LANGUAGES for b in LANGUAGES if a != b]
        raise unknown_name("language pair of the small world", pair, known)
    return tuple(
        (text(source, fact), text(target, fact))
        for kind in ("statement", "request")
        for fact in said.facts(kind)[split]
    )


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


__all__ = [
    "LANGUAGES",
    "MODELS",
    "SENTIMENTS",
    "SPLITS",
    "TASKS",
    "Fact",
    "Language",
    "Token",
    "language",
    "rows",
    "sentiment",
    "text",
    "tokens",
]
