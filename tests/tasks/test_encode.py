"""Rows to numbers: the tokenizer's own pieces, a label for every word, all counted, cached once."""

import copy
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import DataError, UnknownName
from deadhead.forward import IGNORED
from deadhead.tasks import Row, batches, dataset, encode
from deadhead.tasks.encoding.tokenizer import Pieces

SAMPLES = [
    "the",
    "[SEP]",
    "a[CLS]b",
    "\u0301",
    "\u3000",
    "Männern",
    "人民日报",
    "עברית",
    "don't",
    "\u200b",
    "pneumonoultramicroscopic",
]
word = st.sampled_from(SAMPLES) | st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=6
)
text = st.lists(word, max_size=8).map(" ".join)
KINDS = ["wordpiece", "bytelevel", "unigram"]


def window(encoded, i):
    return encoded.arrays["ids"][encoded.starts[i] : encoded.starts[i + 1]].tolist()


def labels(encoded, i):
    return encoded.arrays["labels"][encoded.label_starts[i] : encoded.label_starts[i + 1]].tolist()


def words(encoded, i):
    return encoded.arrays["words"][encoded.starts[i] : encoded.starts[i + 1]].tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.tuples(text, text), min_size=1, max_size=4))
def test_pairs_are_exactly_what_the_tokenizer_writes(tokenizers, tmp_path, kind, pairs):
    tokenizer = tokenizers[kind]
    encoded = encode(
        dataset("mnli", "en", "test", [Row(pair, ("neutral",)) for pair in pairs]),
        tokenizer,
        cache=tmp_path,
    )
    for i, (first, second) in enumerate(pairs):
        expected = tokenizer(
            [first], [second]
        )  # in lists: alone, an empty second text counts as none
        assert window(encoded, i) == expected["input_ids"][0]
        if kind == "wordpiece":
            assert (
                encoded.arrays["types"][encoded.starts[i] : encoded.starts[i + 1]].tolist()
                == expected["token_type_ids"][0]
            )
    assert ("types" in encoded.arrays) == (kind == "wordpiece")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(6, 24))
def test_long_pairs_are_cut_as_the_tokenizer_cuts_them(tokenizers, tmp_path, a, b, size):
    tokenizer, pair = tokenizers["wordpiece"], (" ".join("x" * a), " ".join("!" * b))
    encoded = encode(
        dataset("mnli", "en", "test", [Row(pair, ("neutral",))]),
        tokenizer,
        max_length=size,
        cache=tmp_path,
    )
    assert (
        window(encoded, 0)
        == tokenizer([pair[0]], [pair[1]], truncation="longest_first", max_length=size)[
            "input_ids"
        ][0]
    )
    assert encoded.notes == ({"texts cut": 1} if a + b + 3 > size else {})


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
@given(
    st.lists(st.lists(word, min_size=1, max_size=12), min_size=1, max_size=3),
    st.integers(6, 14),
    st.sampled_from(["first", "all"]),
)
def test_no_word_is_lost(tokenizers, tmp_path, kind, sentences, size, align):
    rows = [
        Row(tuple(s), tuple("NOUN" if i % 2 else "VERB" for i in range(len(s)))) for s in sentences
    ]
    data = dataset("pos", "en", "test", rows)
    encoded = encode(data, tokenizers[kind], max_length=size, align=align, cache=tmp_path)
    seen: dict[int, list[tuple[int, int]]] = {}
    for i in range(len(encoded)):
        contents, marks, on = window(encoded, i), words(encoded, i), labels(encoded, i)
        assert len(contents) <= size
        assert contents[0] == tokenizers[kind].cls_token_id
        assert contents[-1] == tokenizers[kind].sep_token_id
        assert (on[0], on[-1]) == (IGNORED, IGNORED)
        seen.setdefault(int(encoded.arrays["rows"][i]), []).extend(
            (w, on[p]) for p, w in enumerate(marks) if w >= 0
        )
        at: int | None = None
        for mark, label in zip(marks[1:-1], on[1:-1], strict=True):  # pieces after the first
            at = mark if mark >= 0 else at
            if mark < 0:
                assert label == (
                    data.labels.index(rows[int(encoded.arrays["rows"][i])].labels[at or 0])
                    if align == "all"
                    else IGNORED
                )
    for i, row in enumerate(rows):
        assert seen[i] == [(w, data.labels.index(tag)) for w, tag in enumerate(row.labels)]
    assert encoded.notes.get("sentences split", 0) == sum(
        n > 1 for n in np.bincount(encoded.arrays["rows"], minlength=len(rows)).tolist()
    )


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
@given(st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=9))
def test_words_are_cut_as_the_tokenizer_cuts_split_words(tokenizers, kind, sentence):
    expected = tokenizers[kind](sentence, is_split_into_words=True, add_special_tokens=False)[
        "input_ids"
    ]
    assert [
        piece for result in Pieces(tokenizers[kind]).words([sentence])[0] for piece in result
    ] == expected


@given(
    st.lists(st.sampled_from(["the", "quick", "Männern", "北京", "lazy"]), min_size=1, max_size=9)
)
def test_byte_level_words_are_those_of_the_running_text(tokenizers, sentence):
    tokenizer = tokenizers["bytelevel"]
    result = Pieces(tokenizer).words([sentence])[0]
    assert [piece for first in result for piece in first] == tokenizer(
        " ".join(sentence), add_special_tokens=False
    )["input_ids"]


def test_windows_end_between_words(tokenizers):
    data = dataset("pos", "en", "test", [Row(("the", "quick", "x", "the", "quick"), ("NOUN",) * 5)])
    whole = encode(data, tokenizers["wordpiece"])
    split = encode(data, tokenizers["wordpiece"], max_length=5)
    assert whole.notes == {}
    assert len(whole) == 1
    assert split.notes == {"sentences split": 1}
    inner = [piece for i in range(len(split)) for piece in window(split, i)[1:-1]]
    assert inner == window(whole, 0)[1:-1]
    cut = encode(data, tokenizers["wordpiece"], max_length=5, long="cut")
    assert len(cut) == 1
    assert cut.notes == {
        "sentences cut": 1,
        "words cut off": 5 - sum(w >= 0 for w in words(cut, 0)),
    }


def test_odd_words_are_kept_and_counted(tokenizers):
    data = dataset("pos", "en", "test", [Row(("\u200b", "", "x" * 3000), ("X", "X", "NOUN"))])
    encoded = encode(data, tokenizers["wordpiece"], max_length=16)
    assert [w for i in range(len(encoded)) for w in words(encoded, i) if w >= 0] == [0, 1, 2]
    assert encoded.notes["words without pieces"] == 2
    longer = encode(
        dataset("pos", "en", "test", [Row(("the" * 50,), ("X",))]),
        tokenizers["bytelevel"],
        max_length=16,
    )
    assert longer.notes == {"words longer than a window": 1}
    assert len(window(longer, 0)) == 16


def test_labels_of_the_model_decide(tokenizers):
    data = dataset("slots", "tr", "test", [Row(("a", "b"), ("O", "B-new"))])
    encoded = encode(data, tokenizers["wordpiece"], labels=("B-city", "O"))
    assert [label for label in labels(encoded, 0) if label != IGNORED] == [1]
    assert encoded.notes["labels the model does not know"] == 1


def test_translation_pairs(tokenizers):
    tokenizer = tokenizers["unigram"]
    data = dataset(
        "parallel", "en-de", "test", [Row(("the dog", "eine Gruppe")), Row(("x " * 40, "y"))]
    )
    encoded = encode(data, tokenizer, max_length=20)
    assert window(encoded, 0) == tokenizer("the dog")["input_ids"]
    assert labels(encoded, 0) == tokenizer(text_target="eine Gruppe")["input_ids"]
    assert len(window(encoded, 1)) == 20
    assert window(encoded, 1)[-1] == tokenizer.sep_token_id
    assert encoded.notes == {"source texts cut": 1}


def test_the_padding_side_of_the_tokenizer_does_not_matter(tokenizers, tmp_path):
    """Training and scoring pad on the right themselves, whatever a decoder's tokenizer says."""
    rows = [Row(("the fox",), ("positive",)), Row(("a",), ("negative",))]
    data = dataset("sst2", "en", "test", rows)
    batch = {}
    for side in ("left", "right"):
        tokenizer = copy.deepcopy(tokenizers["bytelevel"])
        tokenizer.padding_side = side
        batch[side] = next(iter(batches(encode(data, tokenizer, cache=tmp_path / side))))
    for name, value in batch["left"].items():
        assert value.tolist() == batch["right"][name].tolist()
    assert batch["left"]["attention_mask"][:, 0].all()


def test_truncation_left_on_in_the_tokenizer_does_not_matter(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    tokenizer.backend_tokenizer.enable_truncation(4)
    try:
        encoded = encode(
            dataset("sst2", "en", "test", [Row(("x " * 9,), ("positive",))]), tokenizer
        )
        assert len(window(encoded, 0)) == 11
    finally:
        tokenizer.backend_tokenizer.no_truncation()


def test_mistakes_are_named(tokenizers):
    data = dataset("sst2", "en", "test", [Row(("a",), ("positive",))])
    with pytest.raises(DataError, match="`max_length` expects"):
        encode(data, tokenizers["wordpiece"], max_length=3)
    with pytest.raises(DataError, match="has nothing to encode"):
        encode(dataset("sst2", "en", "test", []), tokenizers["wordpiece"])
    with pytest.raises(UnknownName, match="Did you mean 'first'"):
        encode(data, tokenizers["wordpiece"], align="frist")
    with pytest.raises(UnknownName, match="Did you mean 'split'"):
        encode(data, tokenizers["wordpiece"], long="splitt")


# --- the cache ----------------------------------------------------------------------------------


def test_stretches_join_without_a_seam(tokenizers, monkeypatch, tmp_path):
    rows = [Row(("the", "fox", str(i)), ("DET", "NOUN", "NUM")) for i in range(10)]
    data = dataset("pos", "en", "test", rows)
    whole = encode(data, tokenizers["wordpiece"], cache=tmp_path / "a")
    monkeypatch.setattr(sys.modules[encode.__module__], "STRETCH", 3)
    parts = encode(data, tokenizers["wordpiece"], cache=tmp_path / "b")
    assert all(np.array_equal(whole.arrays[name], parts.arrays[name]) for name in whole.arrays)
