"""The rows of the small world: labels that fit, splits that do not leak, on every machine."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from corpus import corpus
from facts import LABELS, combination, fact, facts, hypotheses, pairs, split_of
from grammar import Phrase, world
from sentences import content, sentiment

from deadhead.errors import UnknownName
from deadhead.world import LANGUAGES, SENTENCES, SPLITS, rows


def test_the_package_has_what_the_generator_writes():
    """Each process orders sets by hashes of its own, so this also fails if they decide anything."""
    assert json.loads(lzma.decompress(SENTENCES.read_bytes())) == content()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_tagging_rows_fit(lang):
    for task in ("pos", "ner", "slots"):
        for words, tags in rows(task, lang, "train"):
            assert len(words) == len(tags) > 2
    for task in ("ner", "slots"):
        for _, tags in rows(task, lang, "train"):
            for before, tag in zip(["O", *tags], tags, strict=False):
                assert not tag.startswith("I-") or before[1:] == tag[1:]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_entities_are_the_same_in_every_language(lang):
    def spans(code: str) -> list[Counter[str]]:
        return [
            Counter(tag for tag in tags if tag.startswith("B-"))
            for _, tags in rows("ner", code, "test")
        ]

    assert spans(lang) == spans("en")
    assert {tag for result in spans(lang) for tag in result} == {"B-PER", "B-ORG", "B-LOC"}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_slots_are_the_same_in_every_language(lang):
    def spans(code: str) -> list[list[str]]:
        return [
            sorted(tag for tag in tags if tag.startswith("B-"))
            for _, tags in rows("slots", code, "test")
        ]

    assert spans(lang) == spans("en")
    assert len({tag for result in spans(lang) for tag in result}) == 8


@pytest.mark.parametrize("lang", LANGUAGES)
def test_thousands_of_distinct_sentences_and_no_leak(lang):
    by_split = {
        split: {
            source
            for source, _ in rows("translation", f"{lang}-{'de' if lang == 'en' else 'en'}", split)
        }
        for split in SPLITS
    }
    assert len(by_split["train"]) > 3000
    assert not by_split["train"] & (by_split["dev"] | by_split["test"])
    assert not by_split["dev"] & by_split["test"]


def test_combinations_are_held_out_but_words_are_known():
    for kind in ("statement", "review", "request"):
        seen = {split: {combination(first) for first in facts(kind)[split]} for split in SPLITS}
        assert not seen["train"] & seen["test"]
        assert not seen["train"] & seen["dev"]
        assert not seen["dev"] & seen["test"]
    assert all(split_of(first) == "train" for first in corpus(500))
    for lang in LANGUAGES:
        known = Counter(word for words, _ in rows("pos", lang, "train") for word in words)
        tested = [word for words, _ in rows("pos", lang, "test") for word in words]
        assert sum(word in known for word in tested) / len(tested) > 0.98


def test_labels_are_balanced():
    for split in SPLITS:
        labels = Counter(label for _, _, label in rows("nli", "en", split))
        assert set(labels) == set(LABELS)
        assert max(labels.values()) - min(labels.values()) <= 3
        opinions = Counter(label for _, label in rows("sentiment", "en", split))
        assert set(opinions) == {"negative", "positive"}
        assert min(opinions.values()) > 0.3 * sum(opinions.values())


def test_neither_half_of_a_pair_gives_the_label_away():
    """The best guess from "is it negated?" alone is far from sure, for premise and hypothesis."""
    for side in (0, 1):
        table: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for pair in pairs()["train"]:
            table["neg" in pair[side].features][pair[2]] += 1
        best = sum(max(counts.values()) for counts in table.values()) / sum(
            sum(counts.values()) for counts in table.values()
        )
        assert best < 0.7


def test_what_follows_from_what():
    bought = fact(
        "transitive",
        "past",
        S=Phrase("name", "maria"),
        V="buy",
        O=Phrase("indef", "car", adjective="red"),
        T="yesterday",
    )
    result = {(label, other) for label, other in hypotheses(bought, Random(0))}
    assert ("entailment", bought.but(T=None)) in result
    assert ("entailment", bought.but(O=Phrase("indef", "car"))) in result
    assert ("entailment", bought.but(O=Phrase("indef", "a_vehicle"))) in result
    assert ("contradiction", bought.but(features={"past", "neg"})) in result
    denied = bought.but(features={"past", "neg"})
    opposites = {(label, other) for label, other in hypotheses(denied, Random(0))}
    assert ("neutral", denied.but(T=None)) in opposites  # not yesterday, but perhaps another day
    assert ("contradiction", bought) in opposites
    for premise, hypothesis, label in pairs()["train"]:
        assert premise != hypothesis
        if label == "entailment" and premise.frame != "review":
            assert ("neg" in premise.features) == ("neg" in hypothesis.features)


def test_not_turns_an_opinion_around():
    assert sentiment(fact("review", "", S=Phrase("def", "film"), A="good")) == "positive"
    assert sentiment(fact("review", "neg", S=Phrase("def", "film"), A="good")) == "negative"
    assert sentiment(fact("review", "neg", S=Phrase("def", "film"), A="boring")) == "positive"
    opinions = world()["opinions"]
    assert not set(opinions["positive"]) & set(opinions["negative"])


def test_rows_are_the_callers_own():
    rows("pos", "en", "dev")[0][0].clear()
    assert rows("pos", "en", "dev")[0][0]


def test_translations_line_up():
    there, back = rows("translation", "en-tr", "test"), rows("translation", "tr-en", "test")
    assert [(b, a) for a, b in there] == list(back)


@pytest.mark.parametrize(
    ("task", "lang", "split", "guess"),
    [
        ("poss", "en", "test", "'pos'"),
        ("pos", "swa", "test", "'sw'"),
        ("pos", "en", "tests", "'test'"),
        ("translation", "en-dee", "test", "'en-de'"),
    ],
)
def test_a_wrong_name_is_refused(task, lang, split, guess):
    with pytest.raises(UnknownName, match=guess):
        rows(task, lang, split)


def test_rows_need_no_torch():
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from deadhead.world import rows; rows('pos', "
        "'ar', 'dev'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
