"""A small world in nine languages: parallel sentences with every kind of label, offline.

    rows("pos", "tr", "train")[0]            -> (words, tags)
    rows("nli", "ur", "dev")[0]              -> (premise, hypothesis, label)
    rows("translation", "en-de", "test")[0]  -> (source, target)

Real words and real grammar, a few thousand distinct sentences per language, the same on every
machine. `models/` holds two tiny models. The programs in `tools/world` of the repository write the
sentences and pre-train the models. The docs page of tasks lists the simplifications.
"""

import json
import lzma
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name

MODELS = Path(__file__).parent / "models"  # `encoder` and `seq2seq`, pre-trained on this world
SENTENCES = MODELS.with_name("sentences.json.xz")
LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
SPLITS = ("train", "dev", "test")
KINDS = {  # the kinds of sentences of each task
    "pos": ("statement",),
    "ner": ("statement",),
    "slots": ("request",),
    "nli": ("pair",),
    "sentiment": ("review",),
    "translation": ("statement", "request"),
}
TASKS = tuple(KINDS)
TAGS = {"pos": 1, "ner": 2, "slots": 3}  # which part of form/part of speech/entity/slot is the tag
SENTIMENTS = ("negative", "positive")
WITHOUT_BLANK = re.compile(r" ([.,?۔؟।])|(¿) ")


def rows(task: str, lang: str, split: str) -> tuple[tuple[Any, ...], ...]:
    """Return the examples of a task.

    A row is (words, tags), (premise, hypothesis, label), (text, label) or, for a pair of languages
    such as `en-de`, (source, target).
    """
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    if task not in TASKS:
        raise unknown_name("task of the small world", task, TASKS)
    source, _, target = lang.partition("-")
    if task == "translation":
        pairs = [f"{a}-{b}" for a in LANGUAGES for b in LANGUAGES if a != b]
        if lang not in pairs:
            raise unknown_name("language pair of the small world", lang, pairs)
    elif lang not in LANGUAGES:
        raise unknown_name("language of the small world", lang, LANGUAGES)
    listed = [row for kind in KINDS[task] for row in _content()[kind][split]]
    if task in TAGS:
        sentences = (_words(lang, number) for (number,) in listed)
        return tuple(([w[0] for w in words], [w[TAGS[task]] for w in words]) for words in sentences)
    if task == "translation":
        return tuple((_text(source, number), _text(target, number)) for (number,) in listed)
    return tuple(
        (*(_text(lang, number) for number in numbers), label) for *numbers, label in listed
    )


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(lzma.decompress(SENTENCES.read_bytes()))
    return content


def _words(lang: str, number: int) -> list[list[str]]:
    """Return the form, the part of speech, the entity and the slot of each word of a sentence."""
    return [word.split("/") for word in _content()["sentences"][lang][number].split(" ")]


@cache
def _text(lang: str, number: int) -> str:
    return text_of(lang, [word[0] for word in _words(lang, number)])


def text_of(lang: str, words: Iterable[str]) -> str:
    """Return a sentence as people write it, with the full stop where it belongs."""
    return "".join(words) if lang == "zh" else WITHOUT_BLANK.sub(r"\1\2", " ".join(words))


__all__ = ["LANGUAGES", "MODELS", "SENTIMENTS", "SPLITS", "TASKS", "rows"]
