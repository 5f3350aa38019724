"""Plain text as windows of tokens: which tokens, words and bytes each of them predicts."""

import gzip

import numpy as np
import pytest
from datasets import Features, Value
from test_hub import put  # noqa: F401  # a fixture

import tiny_decoders
from deadhead.errors import DataError
from deadhead.forward import IGNORED
from deadhead.tasks import Row, check_folder, draw_examples, encode, find_data, load_data, score
from deadhead.tasks.encoding.tokenizer import Pieces
from deadhead.tasks.predictions import Predictions

TEXT = tiny_decoders.TEXT * 3


@pytest.fixture
def file(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def of_text(folder, text, name="text.txt"):
    """The data of a file with this text."""
    (folder / name).write_text(text)
    return load_data("lm", root=folder / name)


def test_a_file_is_one_text_and_serves_the_split_that_is_read(file):
    for split in ("train", "dev", "test"):
        data = load_data("lm", split=split, root=file)
        assert (data.lang, data.split, data.files) == ("text", split, (str(file),))
        assert data.rows == [Row((TEXT,))]
    places = find_data("lm", "text", ["train", "dev"], root=file)
    assert places["train"] == str(file)
    assert "is one file, and serves as train data only" in str(places["dev"])
    assert isinstance(find_data("lm", "text", ["dev"], root=file, beside="train")["dev"], DataError)


def test_a_folder_has_splits(tmp_path):
    (tmp_path / "valid.txt").write_text("one two\n")
    (tmp_path / "wiki.test.raw").write_text("three\r\nfour")
    (tmp_path / "README.txt").write_text("not data")
    assert load_data("lm", root=tmp_path).rows == [Row(("one two\n",))]
    assert load_data("lm", split="test", root=tmp_path).rows == [Row(("three\nfour",))]
    with pytest.raises(DataError, match="no train data of lm"):
        load_data("lm", split="train", root=tmp_path)
    (line, *_) = [f for f in check_folder(tmp_path, "lm") if f.split == "dev"]
    assert (line.task, line.language, line.error) == ("lm", "text", None)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("length", [7, 100])
def test_windows_cover_the_text_once(bos, length, file, tmp_path):
    tokenizer = tiny_decoders.tokenizer(bos)
    data = load_data("lm", root=file)
    encoded = encode(data, tokenizer, max_length=length, cache=tmp_path)
    (text,) = data.rows[0].texts
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    arrays = encoded.arrays
    windows = np.split(np.asarray(arrays["ids"]), encoded.starts[1:-1])
    labels = np.split(np.asarray(arrays["labels"]), encoded.starts[1:-1])
    assert [*np.concatenate([window[bos:] for window in windows])] == ids
    assert all(len(window) == length for window in windows[:-1])
    assert 2 <= len(windows[-1]) <= length
    for window, label in zip(windows, labels, strict=True):
        assert label[0] == IGNORED
        assert (label[1:] == window[1:]).all()
        assert not bos or window[0] == 0
    predicted = [_bytes(tokenizer, text, ids, begin + (not bos)) for begin in _begins(windows, bos)]
    ends = [_bytes(tokenizer, text, ids, begin) for begin in [*_begins(windows, bos)[1:], len(ids)]]
    assert [*arrays["byte_counts"]] == [b - a for a, b in zip(predicted, ends, strict=True)]
    words = int(sum(arrays["word_counts"]))
    assert words == len(text.split()) if bos else words < len(text.split())
    assert not encoded.notes


def _begins(windows, bos):
    sizes = [len(window) - bos for window in windows]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _bytes(tokenizer, text, ids, tokens):
    """The bytes of the first tokens, up to the end of a character."""
    names = tokenizer.convert_ids_to_tokens(ids[:tokens])
    size = sum(map(len, names))  # a letter of byte-level BPE is a byte
    ends = np.cumsum([0, *(len(letter.encode()) for letter in text)])
    return int(min(end for end in ends if end >= size))


def test_words_and_bytes_by_hand(tmp_path):
    data, tokenizer = of_text(tmp_path, "ab  cd\nef"), tiny_decoders.tokenizer()
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(data.rows[0].texts[0])["input_ids"])
    assert tokens == ["a", "b", "Ġ", "Ġc", "d", "Ċ", "e", "f"]
    encoded = encode(data, tokenizer, max_length=4, cache=tmp_path)
    # of `ab  c` all but `a`, where no word begins but `cd`; of `d\nef` all but `d`
    assert [*encoded.arrays["byte_counts"]] == [4, 3]
    assert [*encoded.arrays["word_counts"]] == [1, 1]


def test_a_tokenizer_without_ends_counts_what_it_decodes(file, tmp_path, monkeypatch):
    data, tokenizer = load_data("lm", root=file), tiny_decoders.tokenizer(bos=True)
    fast = encode(data, tokenizer, max_length=50, cache=tmp_path / "fast")
    with_ends = Pieces.with_ends
    monkeypatch.setattr(Pieces, "with_ends", lambda self, text: (with_ends(self, text)[0], None))
    slow = encode(data, tokenizer, max_length=50, cache=tmp_path / "slow")
    assert [*slow.arrays["byte_counts"]] == [*fast.arrays["byte_counts"]]
    gap = np.asarray(slow.arrays["word_counts"]) - np.asarray(fast.arrays["word_counts"])
    assert set(gap.tolist()) <= {0, 1}  # the rest of a word at the start of a window


def test_a_last_token_alone_is_dropped_and_counted(tmp_path):
    data = of_text(tmp_path, "ab  cd\nefg")  # 9 tokens
    encoded = encode(data, tiny_decoders.tokenizer(), max_length=4, cache=tmp_path)
    assert [*encoded.arrays["lengths"]] == [4, 4]
    assert encoded.notes == {"last tokens left out, which are alone in a window": 1}


def test_examples_are_windows_drawn_at_random(file, tmp_path):
    data, tokenizer = load_data("lm", root=file), tiny_decoders.tokenizer()

    def encoded(most, seed=1):
        drawn = draw_examples(data, most, seed=seed)
        return encode(drawn, tokenizer, max_length=8, cache=tmp_path / f"{most} {seed}")

    every, some, other = encoded(None), encoded(3), encoded(3, seed=2)
    assert len(some) == 3
    assert some.notes == {"windows left out at random": len(every) - 3}
    again = encode(some.data, tokenizer, max_length=8, cache=tmp_path)
    assert [*again.arrays["ids"]] == [*some.arrays["ids"]] != [*other.arrays["ids"]]
    assert len({data.fingerprint, some.data.fingerprint, other.data.fingerprint}) == 3
    assert len(encoded(10_000)) == len(every)


def test_metrics_by_hand(file):
    data = load_data("lm", root=file)
    windows = [(2.0, 4, 1, 2, 8), (4.0, 8, 2, 4, 12)]  # loss, tokens, right, words, bytes
    values = score("lm", windows, data)
    assert values == pytest.approx(
        {
            "perplexity": np.exp(6 / 12),
            "word_perplexity": np.exp(6 / 6),
            "byte_perplexity": np.exp(6 / 20),
            "next_token_accuracy": 3 / 12,
        }
    )


def test_predictions_are_stored(file, tmp_path):
    data = load_data("lm", root=file)
    windows = np.array([(2.0, 4, 1, 2, 8), (4.5, 8, 2, 4, 12)])
    about = {"task": "lm", "kind": "lm", "lang": "text", "split": "dev", "labels": ()}
    numbers, sizes = np.zeros(0, np.int64), np.ones(1, np.int64)
    predictions = Predictions(
        **about, fingerprint=data.fingerprint, numbers=numbers, sizes=sizes, values=windows
    )
    again = Predictions.load(predictions.save(tmp_path / "text.npz"))
    assert (again.values == windows).all()
    assert again.examples == 2
    assert again.score(data) == predictions.score(data)
    interval = again.bootstrap(data)
    assert interval.low <= interval.value <= interval.high
    assert interval.low < interval.high


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "no text in the file", ""),
        (b"text\n" * 2000 + b"\x00", "NUL byte", "this one is binary"),
        (gzip.compress(b"caf\xe9", mtime=0), "not UTF-8", "iconv -f latin1 -t utf-8"),
    ],
)
def test_a_file_that_is_no_text(content, message, hint, tmp_path):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(DataError, match=message) as problem:
        load_data("lm", root=tmp_path / "text.txt")
    assert hint in str(problem.value.hint)


def test_a_text_of_one_token(tmp_path):
    data = of_text(tmp_path, "a")
    with pytest.raises(DataError, match="fewer than two tokens"):
        encode(data, tiny_decoders.tokenizer(), cache=tmp_path)
    with pytest.raises(DataError, match="one window of 512 tokens, got 2 tokens") as problem:
        encode(data, tiny_decoders.tokenizer(bos=True), cache=tmp_path)
    assert "--max-length" not in str(problem.value.hint)  # no command takes so short windows


@pytest.mark.parametrize("bos", [False, True])
def test_a_text_shorter_than_a_window(bos, tmp_path):
    """No text fills a window: a short last one after full ones is no mistake, this is."""
    data = of_text(tmp_path, '{"text": "abcd"}\n{"text": "ab"}\n', "texts.jsonl")
    assert data.rows == [Row(("abcd",)), Row(("ab",))]
    tokenizer = tiny_decoders.tokenizer(bos)
    longest = 4 + bos
    with pytest.raises(DataError, match=f"one window of 6 tokens, got {longest} tokens") as problem:
        encode(data, tokenizer, max_length=6, cache=tmp_path)
    assert f"--max-length {longest}" in str(problem.value.hint)
    assert len(encode(data, tokenizer, max_length=longest, cache=tmp_path)) == 2


def test_options_that_make_no_sense_for_a_text(file):
    with pytest.raises(DataError, match="data of lm has no language; got 'en'"):
        load_data("lm", "en", "dev", root=file)
    for option in ({"parts": 3}, {"deduplicate": True}, {"cut": "pooled"}):
        with pytest.raises(DataError, match="reads a text as a whole"):
            load_data("lm", root=file, **option)
    with pytest.raises(DataError, match="needs a language"):
        load_data("pos", root="world")
    with pytest.raises(DataError, match="max_length"):
        encode(load_data("lm", root=file), tiny_decoders.tokenizer(), max_length=1)


def test_the_small_world_is_a_text_too():
    data = load_data("lm", root="world")
    lines = data.rows[0].texts[0].split("\n")
    words = [" ".join(row.texts) for row in load_data("pos", "en", "dev", root="world").rows]
    assert lines == words


def test_wikitext_from_the_hub(put):  # noqa: F811
    features = Features({"text": Value("string")})
    rows = [{"text": text} for text in ("", " = Robert = \n", "", " Robert is an actor . \n")]
    for name in ("wikitext-2-raw-v1", "wikitext-103-raw-v1"):
        for split in ("test", "validation"):
            put("Salesforce/wikitext", name, split, features, [*rows, {"text": f" {split} \n"}])
    data = load_data("lm", split="test")
    assert data.rows == [Row((" = Robert = \n Robert is an actor . \n test \n",))]
    assert data.files[0].startswith("hub:Salesforce/wikitext@b08601e")
    dev = load_data("lm", source="wikitext-103")
    assert dev.rows[0].texts[0].endswith(" validation \n")
    assert "103" in dev.files[0]
