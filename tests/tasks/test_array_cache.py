"""Encoded data on disk: written once, found again, never damaged."""

import os

import numpy as np
import pytest

from deadhead.tasks import Row, dataset, encode
from deadhead.tasks.encoding.array_cache import stored
from deadhead.tasks.encoding.tokenizer import Pieces


def test_it_is_tokenised_once_and_mapped(tokenizers, tmp_path, monkeypatch):
    data = dataset("sst2", "en", "test", [Row((f"the fox {i}",), ("positive",)) for i in range(9)])
    first = encode(data, tokenizers["wordpiece"], cache=tmp_path)
    monkeypatch.setattr(Pieces, "texts", lambda *_: pytest.fail("tokenised again"))
    again = encode(data, tokenizers["wordpiece"], cache=tmp_path)
    assert again.fingerprint == first.fingerprint
    assert isinstance(again.arrays["ids"], np.memmap)
    assert all(np.array_equal(first.arrays[name], again.arrays[name]) for name in first.arrays)
    assert [p.name for p in (tmp_path / "encoded").iterdir()] == [
        first.fingerprint
    ]  # no drafts left
    with pytest.raises(pytest.fail.Exception, match="tokenised again"):
        encode(data, tokenizers["wordpiece"], cache=tmp_path, max_length=64)


def test_everything_that_matters_is_in_the_address(tokenizers):
    first = dataset("sst2", "en", "test", [Row(("a",), ("positive",))])
    other = dataset("sst2", "en", "test", [Row(("b",), ("positive",))])
    built = [
        encode(first, tokenizers["wordpiece"]),
        encode(other, tokenizers["wordpiece"]),
        encode(first, tokenizers["unigram"]),
        encode(first, tokenizers["wordpiece"], max_length=9),
        encode(first, tokenizers["wordpiece"], labels=("positive", "negative")),
    ]
    assert len({encoded.fingerprint for encoded in built}) == len(built)


@pytest.mark.parametrize("damage", ["short", "gone", "notes", "empty", "zeros"])
def test_a_damaged_cache_is_written_again(tokenizers, tmp_path, damage):
    data = dataset("sst2", "en", "test", [Row(("the fox",), ("positive",))])
    good = encode(data, tokenizers["wordpiece"], cache=tmp_path)
    names = [*good.arrays]
    expected = [good.arrays[name].tolist() for name in names]
    name = {"notes": "about.json", "zeros": "labels"}.get(damage, "ids")
    path = tmp_path / "encoded" / good.fingerprint / name
    raw = path.read_bytes()
    assert any(raw[-8:])  # else zeros change nothing
    path.unlink()
    if damage != "gone":
        damaged = {"empty": b"", "zeros": raw[:-8] + bytes(8)}
        path.write_bytes(damaged.get(damage, raw[:-4]))
    again = encode(data, tokenizers["wordpiece"], cache=tmp_path)
    assert [again.arrays[name].tolist() for name in names] == expected


def test_whoever_is_killed_leaves_nothing_behind(tmp_path):
    def write(notes):
        yield {"a": np.arange(3, dtype=np.int32)}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "x", write)
    assert os.listdir(tmp_path) == []


def test_two_writers_may_race(tmp_path):
    def slow(notes):
        stored(tmp_path / "x", quick)  # another one is quicker
        yield {"a": np.arange(3, dtype=np.int32)}

    def quick(notes):
        notes["told"] = 1
        yield {"a": np.arange(2, dtype=np.int32)}
        yield {"a": np.arange(2, 3, dtype=np.int32)}

    arrays, _ = stored(tmp_path / "x", slow)
    assert arrays["a"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["x"]
