"""Encoded data on disk: written once, found again, never damaged."""

import pytest

from deadhead.tasks import Row, dataset, encode
from deadhead.tasks.encoding.tokenizer import Pieces

DATA = dataset("sst2", "en", "test", [Row((f"the fox {i}",), ("positive",)) for i in range(9)])


def content(encoded):
    return {name: values.tolist() for name, values in encoded.arrays.items()}


def test_it_is_tokenised_once(tokenizers, tmp_path, monkeypatch):
    first = encode(DATA, tokenizers["wordpiece"], cache=tmp_path, max_length=4)
    assert first.notes == {"texts cut": 9}
    monkeypatch.setattr(Pieces, "texts", lambda *_: pytest.fail("tokenised again"))
    again = encode(DATA, tokenizers["wordpiece"], cache=tmp_path, max_length=4)
    assert (again.fingerprint, again.notes) == (first.fingerprint, first.notes)
    assert content(again) == content(first)
    names = [path.name for path in (tmp_path / "encoded").iterdir()]
    assert names == [f"{first.fingerprint}.npz"]  # no drafts left
    with pytest.raises(pytest.fail.Exception, match="tokenised again"):
        encode(DATA, tokenizers["wordpiece"], cache=tmp_path, max_length=64)


def test_everything_that_matters_is_in_the_address(tokenizers):
    other = dataset("sst2", "en", "test", [Row(("b",), ("positive",))])
    built = [
        encode(DATA, tokenizers["wordpiece"]),
        encode(other, tokenizers["wordpiece"]),
        encode(DATA, tokenizers["unigram"]),
        encode(DATA, tokenizers["wordpiece"], max_length=9),
        encode(DATA, tokenizers["wordpiece"], labels=("positive", "negative")),
    ]
    assert len({encoded.fingerprint for encoded in built}) == len(built)


@pytest.mark.parametrize("damage", ["short", "empty", "zeros"])
def test_a_damaged_cache_is_written_again(tokenizers, tmp_path, damage):
    good = encode(DATA, tokenizers["wordpiece"], cache=tmp_path)
    path = tmp_path / "encoded" / f"{good.fingerprint}.npz"
    raw = path.read_bytes()
    ids = good.arrays["ids"].tobytes()
    assert raw.count(ids) == 1
    damaged = {"short": raw[:-4], "empty": b"", "zeros": raw.replace(ids, bytes(len(ids)))}
    path.write_bytes(damaged[damage])
    again = encode(DATA, tokenizers["wordpiece"], cache=tmp_path)
    assert content(again) == content(good)
    assert path.read_bytes() == raw
