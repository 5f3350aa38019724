"""Batches: every window once, in an order that only the seed decides, little padding; and back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import DataError
from deadhead.tasks import Row, batches, dataset, encode
from deadhead.tasks.encoding.encode import Encoded


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
    in_file_order = batches(encoded, size=10, sort=False)
    assert np.concatenate(in_file_order.numbers).tolist() == list(range(len(encoded)))
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
    sorted_, unsorted = (
        batches(encoded, size=10, seed=0),
        batches(encoded, size=10, seed=0, sort=False),
    )
    assert sorted_.padding < unsorted.padding / 3
    masks = torch.cat([batch["attention_mask"].flatten() for batch in unsorted])
    assert unsorted.padding == pytest.approx(1 - masks.float().mean().item())


def test_a_part_of_the_batches(encoded):
    built = batches(encoded, size=3, sort=False, device="cpu")
    assert set(built[1]) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert len(built[2:4]) == 2
    assert torch.equal(next(iter(built[2:4]))["input_ids"], built[2]["input_ids"])


def test_nothing_fits_into_nothing(encoded):
    with pytest.raises(DataError, match="`size` and `tokens` expect 1 or more, got 0"):
        batches(encoded, size=0)
