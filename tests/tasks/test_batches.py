"""Batches: every window once, in an order that only the seed decides, little padding, ready for a model; and back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import DataError
from deadhead.tasks import Row, batches, dataset, encode, score
from deadhead.tasks.encoding.encode import Encoded
from predicted_rows import collect


@pytest.fixture(scope="module")
def encoded(tokenizers, tmp_path_factory):
    rows = [
        Row(tuple(["the", "fox", "x"] * (1 + i * 7 % 11)), ("DET", "NOUN", "X") * (1 + i * 7 % 11))
        for i in range(100)
    ]
    return encode(
        dataset("pos", "en", "train", rows),
        tokenizers["wordpiece"],
        max_length=64,
        cache=tmp_path_factory.mktemp("cache"),
    )


options = st.fixed_dictionaries(
    {
        "size": st.integers(1, 40),
        "tokens": st.none() | st.integers(1, 2000),
        "seed": st.none() | st.integers(0, 3),
        "sort": st.booleans(),
    }
)


@given(options)
def test_every_window_comes_once(encoded, choice):
    built = batches(encoded, **choice)
    assert sorted(np.concatenate(built.numbers).tolist()) == list(range(len(encoded)))
    assert 0 <= built.padding < 1
    lengths = encoded.arrays["lengths"]
    for numbers in built.numbers:
        if choice["tokens"] is None:
            assert len(numbers) <= choice["size"]
        else:
            assert (
                len(numbers) == 1 or len(numbers) * int(lengths[numbers].max()) <= choice["tokens"]
            )


def test_file_order_and_seeded_order(encoded):
    plain = batches(encoded, size=10, sort=False)
    assert np.concatenate(plain.numbers).tolist() == list(range(len(encoded)))
    first, same, other = (batches(encoded, size=10, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first.numbers, same.numbers, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first.numbers, other.numbers, strict=True))


def test_the_order_is_pinned():
    lengths = np.asarray([3 + i * 7 % 11 for i in range(100)], np.int32)
    data = dataset("sst2", "en", "test", [])
    arrays = {"lengths": lengths}
    encoding = Encoded(data=data, labels=(), arrays=arrays, pad=0, notes={}, fingerprint="")
    assert batches(encoding, size=5, seed=0, sort=False).numbers[0].tolist() == [13, 74, 55, 78, 92]
    assert batches(encoding, size=5, seed=0).numbers[0].tolist() == [92, 59, 81, 37, 26]
    assert batches(encoding, tokens=40, seed=0).numbers[0].tolist() == [23, 45, 89, 34]
    assert batches(encoding, size=5).numbers[0].tolist() == [0, 11, 22, 33, 44]


def test_sorting_saves_padding_and_waste_is_what_it_says(encoded):
    sorted_, plain = (
        batches(encoded, size=10, seed=0),
        batches(encoded, size=10, seed=0, sort=False),
    )
    assert sorted_.padding < plain.padding / 3
    masks = torch.cat([batch["attention_mask"].flatten() for batch in plain])
    assert plain.padding == pytest.approx(1 - masks.float().mean().item())


def test_a_part_of_the_batches(encoded):
    built = batches(encoded, size=3, sort=False, device="cpu")
    assert set(built[1]) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert len(built[2:4]) == 2
    assert torch.equal(next(iter(built[2:4]))["input_ids"], built[2]["input_ids"])


@given(options)
def test_what_comes_back_is_in_the_order_of_the_rows(encoded, choice):
    built = batches(encoded, **choice)
    printed = [batch["labels"].clamp(min=0).numpy() for batch in built]
    predictions = collect(built, printed)
    assert predictions == [list(row.labels) for row in encoded.data.rows]
    printed[0][:] = 0
    assert score("pos", collect(built, printed), encoded.data)["micro_f1"] < 1.0


def test_split_sentences_come_back_whole(tokenizers, tmp_path):
    data = dataset("pos", "en", "test", [Row(("the", "fox", "x") * 20, ("DET", "NOUN", "X") * 20)])
    for long, expected in (("split", 1.0), ("cut", None)):
        encoding = encode(data, tokenizers["wordpiece"], max_length=16, long=long, cache=tmp_path)
        built = batches(encoding, size=2, seed=1)
        result = collect(built, [batch["labels"].clamp(min=0).numpy() for batch in built])
        assert [len(first) for first in result] == [60]
        assert (score("pos", result, data)["micro_f1"] == 1.0) == (expected == 1.0)


def test_classes_and_texts_come_back(tokenizers, tmp_path):
    rows = [Row(("the fox " * (9 - i),), ("positive" if i % 3 else "negative",)) for i in range(9)]
    data = dataset("sst2", "en", "test", rows)
    built = batches(encode(data, tokenizers["bytelevel"], cache=tmp_path), size=4, seed=5)
    assert "token_type_ids" not in built[0]
    assert built[0]["labels"].shape == (4,)
    assert collect(built, [batch["labels"] for batch in built]) == [row.labels[0] for row in rows]
    pairs = [Row(("the " * (5 - i), f"text {i}")) for i in range(5)]
    data = dataset("parallel", "en-de", "test", pairs)
    built = batches(encode(data, tokenizers["unigram"], cache=tmp_path), size=2)
    order = [built.encoded.arrays["rows"][numbers] for numbers in built.numbers]
    texts = [[pairs[n].texts[1] for n in numbers] for numbers in order]
    assert collect(built, texts) == [f"text {i}" for i in range(5)]


def test_nothing_fits_into_nothing(encoded):
    with pytest.raises(DataError, match="`size` and `tokens` expect 1 or more, got 0"):
        batches(encoded, size=0)
