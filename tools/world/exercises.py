"""What the tiny encoder learns from: rows of text in which words are masked, in four exercises.

- Fill: a sentence, some of its words in another language, with masked words.
- Name: a sentence; for some of its words, the answer is the word of another language, which is not
  named. The model does best to represent every word by its meaning, with case, tense and "not".
- Translate: two sentences that are translations of each other, with many masked words.
- Compare: two sentences that say almost the same (`corpus.neighbours`), in one language or in two,
  with masked words.

In all four, the first token has an answer too, in any of the languages: a word of the sentence; for
two sentences, a word that only the second has, while the mark between them answers with a word that
only the first has; or "none", if there is no such word. So the token from which a sentence is
classified represents what it says, and how two sentences differ, in much the same way in every
language. The model never sees a label of any task.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
from corpus import corpus, neighbours
from grammar import Fact, world
from pretrain import (
    CLS,
    MASK,
    PAD,
    SENTENCES,
    SEP,
    SPECIAL,
    TO,
    VOCABULARY,
    Batches,
    Sentence,
    Sentences,
    encoded,
    padded,
    tensors,
    two,
)

from deadhead.world import LANGUAGES

BATCH = 192
COMPARED, TRANSLATED = 0.3, 0.28  # share of all rows
NAMED = 0.67  # share of the rest; the others are to be filled in
NONE = SEP  # the answer where there is no such word

Pairs = list[tuple[list[Sentence], list[Sentence]]]  # two facts, each by language


class Row(NamedTuple):
    """Tokens, the start of the second sentence, the share of words to mask, and further answers."""

    ids: list[int]
    second: int
    share: float
    answers: dict[int, tuple[int, int]]  # position -> the token there, and the right answer


def training_data(tokenizer: Any, n: int = SENTENCES) -> tuple[Sentences, Pairs]:
    """Return facts and pairs of facts in every language; the few reviews and requests repeat."""
    alone = corpus(n)
    near = neighbours(alone)
    facts = list(dict.fromkeys([*alone, *(fact for pair in near for fact in pair)]))
    sentence_of = dict(zip(facts, encoded(tokenizer, facts), strict=True))

    def times(fact: Fact) -> int:
        return 3 if fact.frame == "review" else 2 if fact.frame in world()["slots"] else 1

    sentences = [sentence_of[fact] for fact in alone for _ in range(times(fact))]
    pairs = [
        (sentence_of[one], sentence_of[other])
        for one, other in near
        for _ in range(4 if one.frame == "review" else 1)
    ]
    return sentences, pairs


def alone(fact: list[Sentence], dice: Random) -> Row:
    """One sentence, with words to name or to fill in."""
    a, b = two(dice)
    one, other, answers = fact[a], fact[b], dict[int, tuple[int, int]]()
    if dice.random() < NAMED:
        ids = one.ids
        for at, word in counterparts(one, other, dice).items():
            here, fate = ids[at], dice.random()
            # masked or not, answer with the foreign word; or see it, and answer with the own one
            answers[1 + at] = (
                (MASK, word) if fate < 0.2 else (here, word) if fate < 0.6 else (word, here)
            )
    else:
        ids = switched(one, other, dice)
    answers[0] = (CLS, dice.choice(fact[dice.randrange(len(LANGUAGES))].ids))
    return Row([CLS, *ids, SEP], len(ids) + 2, 0.15, answers)


def translations(fact: list[Sentence], dice: Random) -> Row:
    a, b = two(dice)
    first = [CLS, *fact[a].ids, SEP]
    return Row([*first, *fact[b].ids, SEP], len(first), 0.4, {0: (CLS, NONE)})


def compared(pair: tuple[list[Sentence], list[Sentence]], dice: Random) -> Row:
    """Compare two sentences, mostly in one language, half of the time with words of others."""
    one, other = pair
    a, b = two(dice)
    b = a if dice.random() < 0.6 else b
    left, right = one[a].ids, other[b].ids
    if dice.random() < 0.5:
        left, right = (
            switched(fact[lang], fact[dice.randrange(len(LANGUAGES))], dice)
            for fact, lang in ((one, a), (other, b))
        )
    first = [CLS, *left, SEP]
    x, y = dice.randrange(len(LANGUAGES)), dice.randrange(len(LANGUAGES))
    answers = {
        0: (CLS, dice.choice(only(other[x], one[x]))),
        len(first) - 1: (SEP, dice.choice(only(one[y], other[y]))),
    }
    return Row([*first, *right, SEP], len(first), 0.2, answers)


def only(one: Sentence, other: Sentence) -> list[int]:
    """The pieces that only the first of two sentences has."""
    return sorted(set(one.ids) - set(other.ids)) or [NONE]


def counterparts(one: Sentence, other: Sentence, dice: Random) -> dict[int, int]:
    """Return places of half of the concepts, each with a piece of the other language's word."""
    pieces = {}
    for concept, (at, _) in one.concepts.items():
        if concept in other.concepts and dice.random() < 0.5:
            pieces[at] = other.ids[dice.randrange(*other.concepts[concept])]
    return pieces


def switched(one: Sentence, other: Sentence, dice: Random) -> list[int]:
    """A sentence with three in ten of its concepts written as in the other language."""
    shared = [
        concept for concept in one.concepts if concept in other.concepts and dice.random() < 0.3
    ]
    ids, done = list[int](), 0
    for (start, end), concept in sorted((one.concepts[concept], concept) for concept in shared):
        ids += one.ids[done:start] + other.ids[slice(*other.concepts[concept])]
        done = end
    return ids + one.ids[done:]


def masked(
    ids: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Mask as BERT does: of the chosen tokens, 80 % become [MASK], 10 % any token, 10 % stay."""
    chosen = (rng.random(ids.shape) < share) & (ids >= len(SPECIAL))
    labels = np.where(chosen, ids, -100)
    fate = rng.random(ids.shape)
    anything = rng.integers(len(SPECIAL) + len(TO), VOCABULARY, ids.shape)
    return np.where(
        chosen & (fate < 0.8), MASK, np.where(chosen & (fate >= 0.9), anything, ids)
    ), labels


def encoder_batches(sentences: Sentences, pairs: Pairs, rng: np.random.Generator) -> Batches:
    """Batches of all four exercises, without end."""
    dice = Random(int(rng.integers(1 << 32)))
    while True:
        rows = [_row(sentences, pairs, dice) for _ in range(BATCH)]
        tokens = padded([row.ids for row in rows])
        inputs, labels = masked(tokens, np.array([[row.share] for row in rows]), rng)
        for i, row in enumerate(rows):
            for at, (token, answer) in row.answers.items():
                inputs[i, at], labels[i, at] = token, answer
        kinds = padded([[0] * row.second + [1] * (len(row.ids) - row.second) for row in rows])
        yield tensors(
            input_ids=inputs, token_type_ids=kinds, attention_mask=tokens != PAD, labels=labels
        )


def _row(sentences: Sentences, pairs: Pairs, dice: Random) -> Row:
    which = dice.random()
    if which < COMPARED:
        return compared(dice.choice(pairs), dice)
    make: Callable[[list[Sentence], Random], Row] = (
        translations if which < COMPARED + TRANSLATED else alone
    )
    return make(dice.choice(sentences), dice)
