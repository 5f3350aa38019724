"""What the encoder is asked: masked words, words of other languages, how two sentences differ."""

from __future__ import annotations

from random import Random

import build
import exercises
import numpy as np
import pytest
from corpus import corpus, neighbours
from facts import facts, pairs, split_of
from pretrain import CLS, MASK, PAD, SEP, SPECIAL, VOCABULARY, Sentence
from sentences import tokens

from deadhead.world import LANGUAGES


@pytest.fixture(scope="module")
def learnt():
    return exercises.training_data(build._tokenizer(), 200)


def test_neighbours_are_no_test_sentences_and_have_no_order():
    result = neighbours(corpus(500))
    tested = {first for split in ("dev", "test") for pair in pairs()[split] for first in pair[:2]}
    tested |= {
        first
        for kind in ("statement", "review", "request")
        for split in ("dev", "test")
        for first in facts(kind)[split]
    }
    assert len(result) > 1000
    for first, other in result:
        assert first != other
        assert first.frame == other.frame
        assert {split_of(first), split_of(other)} == {"train"}
        assert not {first, other} & tested
    both = [
        sum(
            "neg" in pair[side].features and "neg" not in pair[1 - side].features for pair in result
        )
        for side in (0, 1)
    ]
    assert 0.7 < both[0] / both[1] < 1.4  # either sentence of two may be the denied one


def test_only_what_is_chosen_is_masked():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, (40, 50))
    untouched, nothing = exercises.masked(ids, np.zeros((40, 1)), rng)
    assert (untouched == ids).all()
    assert (nothing == -100).all()
    arguments, labels = exercises.masked(ids, np.ones((40, 1)), rng)
    words = ids >= len(SPECIAL)
    assert (labels == np.where(words, ids, -100)).all()
    assert (arguments[~words] == ids[~words]).all()
    assert 0.75 < (arguments == MASK)[words].mean() < 0.85


def test_concepts_are_where_they_are_written(learnt):
    tokenizer = build._tokenizer()
    for fact, sentences in zip(corpus(5), exercises.encoded(tokenizer, corpus(5)), strict=True):
        for lang, sentence in zip(LANGUAGES, sentences, strict=True):
            words = {
                token.concept: token.form for token in reversed(tokens(lang, fact)) if token.concept
            }
            assert words
            for concept, form in words.items():
                pieces = [
                    tokenizer.id_to_token(i)
                    for i in sentence.ids[slice(*sentence.concepts[concept])]
                ]
                assert "".join(piece.removeprefix("##") for piece in pieces) == form


def test_counterparts_are_pieces_of_translations(learnt):
    en, tr = learnt[0][0][0], learnt[0][0][LANGUAGES.index("tr")]
    result = [exercises.counterparts(en, tr, Random(seed)) for seed in range(30)]
    assert any(result)
    for requested in result:
        for at, token in requested.items():
            concept = next(name for name, place in en.concepts.items() if place[0] == at)
            assert token in tr.ids[slice(*tr.concepts[concept])]


def test_words_are_switched_in_place():
    first, other = (
        Sentence([10, 11, 12, 13], {"a": (0, 2), "b": (3, 4), "c": (2, 3)}),
        Sentence([20, 21, 22], {"b": (0, 1), "a": (2, 3)}),
    )
    result = {tuple(exercises.switched(first, other, Random(seed))) for seed in range(40)}
    assert result == {(10, 11, 12, 13), (22, 12, 13), (10, 11, 12, 20), (22, 12, 20)}


def test_what_only_one_has():
    first, other = Sentence([7, 9, 5, 5], {}), Sentence([5, 8], {})
    assert exercises.only(first, other) == [7, 9]
    assert exercises.only(other, first) == [8]
    assert exercises.only(first, first) == [exercises.NONE]


def test_the_difference_is_answered_at_the_marks(learnt):
    unswitched, named = 0, set()
    for seed, (first, other) in enumerate(learnt[1]):
        row = exercises.compared((first, other), Random(seed))
        (printed, new), (mark, missing) = row.answers[0], row.answers[row.second - 1]
        assert (printed, mark) == (CLS, SEP) == (row.ids[0], row.ids[row.second - 1])
        assert new == exercises.NONE or any(
            new in b.ids and new not in a.ids for a, b in zip(first, other, strict=True)
        )
        assert missing == exercises.NONE or any(
            missing in a.ids and missing not in b.ids for a, b in zip(first, other, strict=True)
        )
        unswitched += any(
            a.ids == row.ids[1 : row.second - 1] and b.ids == row.ids[row.second : -1]
            for a, b in zip(first, other, strict=True)
        )
        named |= {new, missing}
    assert 0.2 < unswitched / len(learnt[1]) < 0.5  # in one language, with nothing switched
    assert exercises.NONE in named
    assert len(named) > 100


def test_all_four_exercises_are_set(learnt):
    batch = {
        name: tensor.numpy()
        for name, tensor in next(
            exercises.encoder_batches(*learnt, np.random.default_rng(0))
        ).items()
    }
    rows = len(batch["input_ids"])
    two = batch["token_type_ids"].any(1)
    none = batch["labels"][:, 0] == exercises.NONE
    assert rows == exercises.BATCH
    assert (batch["input_ids"][:, 0] == CLS).all()
    assert (batch["labels"][:, 0] != -100).all()
    assert ((batch["input_ids"] != PAD) == batch["attention_mask"].astype(bool)).all()
    assert 0.45 < two.mean() < 0.7  # translations and neighbours
    assert none[~two].sum() == 0  # one sentence always has a word
    assert 0.4 < none[two].mean() < 0.9
