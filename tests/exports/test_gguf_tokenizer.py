"""The tokenizer in a GGUF file splits and merges as the model's own; an unknown one is refused."""

import json
from typing import Any

import pytest
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from deadhead.errors import DataError, UnsupportedModel
from deadhead.exports import export
from deadhead.exports.gguf import runtime
from deadhead.exports.gguf.decoder import read
from deadhead.exports.gguf.file import write
from deadhead.exports.gguf.plan import plan
from deadhead.exports.gguf.tokenizer import SPLITS, metadata
from deadhead.heads import save
from gguf_models import build, byte_tokenizer
from slow import slow_but

TEXTS = (
    "Hello, it's 12345 o'clock!  He'LL  see\n\n the naïve CamelCase.",
    " two  spaces\tand tabs\r\nünïcödé 漢字 ١٢٣ _x_ 3.14",
    "don't/won't …(a+b)=c;\n\n\n  end  ",
)


def with_splits(*steps, ignore_merges=False, merges=True):
    """The byte-level tokenizer with other splits and as many merges of letters as it has tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = "etaoinshrdlu"
    pairs = [(a, b) for a in ("Ġ", *letters[:3]) for b in letters]
    words = ["<s>", "</s>", *alphabet, *(a + b for a, b in pairs)]
    vocabulary = {word: number for number, word in enumerate(words)}
    pairs = pairs if merges else []
    inner = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=ignore_merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    inner.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    )


def by_name(name):
    (steps, whole_words) = next(key for key, value in SPLITS.items() if value == name)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex="words" in steps)
    parts: list[Any] = [pre_tokenizers.Digits(True)] if "digits" in steps else []
    parts += [
        pre_tokenizers.Split(Regex(step), "isolated")
        for step in steps
        if step not in ("words", "digits")
    ]
    return with_splits(*parts, byte_level, ignore_merges=whole_words)


def sentencepiece(*, prepends=True):
    """BPE over characters with byte tokens, as in Llama 2: merges in the order of results."""
    results = ["he", "▁t", "in", "er", "▁a", "▁the", "ing", "▁in", "there"]
    letters = sorted(set("▁abcdefghijklmnopqrstuvwxyzCHL.,!'"))
    specials = ["<unk>", "<s>", "</s>"]
    words = [*specials, *(f"<0x{n:02X}>" for n in range(256)), *results, *letters]
    merges = [
        (word[:n], word[n:])
        for word in results
        for n in range(1, len(word))
        if word[:n] in words and word[n:] in words
    ]
    vocabulary = {word: number for number, word in enumerate(words)}
    inner = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    steps: list[Any] = [normalizers.Prepend("▁")] if prepends else []
    inner.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    inner.add_special_tokens([AddedToken(text, special=True) for text in specials])
    inner.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def test_byte_level_bpe_without_merges_is_refused(tmp_path):
    tokenizer = with_splits(pre_tokenizers.ByteLevel(add_prefix_space=False), merges=False)
    save(build("llama"), tmp_path / "model", tokenizer)
    with pytest.raises(UnsupportedModel, match="without merges"):
        export(tmp_path / "model", gguf=tmp_path / "model.gguf")
    assert not (tmp_path / "model.gguf").exists()


@pytest.mark.parametrize("name", sorted(set(SPLITS.values())))
def test_splits_are_recognised(name):
    values = metadata(by_name(name), None, 400)
    assert values["tokenizer.ggml.pre"] == name
    assert len(values["tokenizer.ggml.merges"]) == 48


def test_sentencepiece_is_recognised():
    values = metadata(sentencepiece(), None, 400)
    assert values["tokenizer.ggml.model"] == "llama"
    assert (values["tokenizer.ggml.add_space_prefix"], values["tokenizer.ggml.add_bos_token"]) == (
        True,
        True,
    )
    assert values["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    tokens, scores = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.scores"]
    assert scores[tokens.index("he")] > scores[tokens.index("▁the")] > scores[tokens.index("a")]
    assert not metadata(sentencepiece(prepends=False), None, 400)["tokenizer.ggml.add_space_prefix"]


@pytest.mark.parametrize(
    "name", slow_but("gpt-2 sentencepiece", [*sorted(set(SPLITS.values())), "sentencepiece"])
)
def test_llama_cpp_reads_the_same_tokens(name, tmp_path):
    tokenizer = sentencepiece() if name == "sentencepiece" else by_name(name)
    model = build("tied")
    contents = plan(read(model), quantised=False)
    values = {**contents.metadata(), **metadata(tokenizer, None, 320)}
    write(tmp_path / "m.gguf", contents, values, "f32")
    tokens = runtime.ask(tmp_path / "m.gguf", texts=TEXTS)["tokens"]
    assert tokens == [tokenizer(text)["input_ids"] for text in TEXTS]


def test_unknown_splits_are_refused():
    tokenizer = with_splits(
        pre_tokenizers.Split(Regex("[aeiou]+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    )
    with pytest.raises(
        UnsupportedModel, match=r"splits text by \[aeiou\]\+. Known are: gpt-2"
    ) as problem:
        metadata(tokenizer, None, 400)
    assert "--tokenizer-from" in str(problem.value.hint)


@pytest.mark.parametrize("kind", ["WordLevel", "lowercase", "prefix", "merges"])
def test_other_tokenizers_are_refused(kind):
    tokenizer = byte_tokenizer()
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    if kind == "WordLevel":
        vocabulary = definition["model"]["vocab"]
        definition["model"] = {"type": kind, "vocab": vocabulary, "unk_token": "<|endoftext|>"}
    elif kind == "lowercase":
        definition["normalizer"] = {"type": "Lowercase"}
    elif kind == "prefix":
        definition["pre_tokenizer"]["add_prefix_space"] = True
    else:
        definition["model"]["byte_fallback"] = True
        definition["model"]["merges"] = definition["model"]["merges"][1:]
    inner = Tokenizer.from_str(json.dumps(definition))
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=inner)
    with pytest.raises(UnsupportedModel, match=r"no known tokenizer"):
        metadata(other, None, 400)


def test_a_model_without_a_tokenizer(tmp_path):
    save(build("tied"), tmp_path / "model")
    with pytest.raises(UnsupportedModel, match="it has none"):
        export(tmp_path / "model", gguf=tmp_path / "m.gguf")


def test_too_many_tokens():
    with pytest.raises(DataError, match="the tokenizer has 300 tokens, and the model embeddings"):
        metadata(byte_tokenizer(), None, 200)


def test_the_tokenizer_of_another_file(tmp_path, monkeypatch):
    """All of it is copied, whatever the folder has; it must have as many tokens as the model."""
    import gguf

    monkeypatch.setattr(runtime, "is_installed", lambda: False)
    save(build("tied", "uneven"), tmp_path / "with", byte_tokenizer())
    original = export(tmp_path / "with", gguf=tmp_path / "original.gguf")
    save(build("tied"), tmp_path / "without")
    file = export(tmp_path / "without", gguf=tmp_path / "m.gguf", tokenizer_from=original)
    fields = [gguf.GGUFReader(path).fields for path in (original, file)]
    copied, expected = (
        {k: v.contents() for k, v in f.items() if k.startswith("tokenizer.")} for f in fields
    )
    assert copied == expected
    assert "tokenizer.chat_template" in copied
    with pytest.raises(DataError, match="--tokenizer-from expects a GGUF file"):
        export(tmp_path / "with", gguf=tmp_path / "n.gguf", tokenizer_from=tmp_path / "none.gguf")
    small = build("tied")
    small.resize_token_embeddings(310)
    save(small, tmp_path / "small")
    with pytest.raises(
        DataError, match="has a tokenizer of 320 tokens, and the model embeddings for 310"
    ):
        export(tmp_path / "small", gguf=tmp_path / "n.gguf", tokenizer_from=original)


def test_the_tokenizer_of_another_model(tmp_path, monkeypatch):
    """Equal numbers of tokens are not enough where the folder has a tokenizer to compare with."""
    monkeypatch.setattr(runtime, "is_installed", lambda: False)
    save(build("tied"), tmp_path / "model", byte_tokenizer())
    save(build("tied"), tmp_path / "other", by_name("gpt-2"))
    own = export(tmp_path / "model", gguf=tmp_path / "own.gguf")
    other = export(tmp_path / "other", gguf=tmp_path / "other.gguf")
    export(tmp_path / "model", gguf=tmp_path / "m.gguf", tokenizer_from=own)
    with pytest.raises(DataError, match=r"has the tokenizer of another model: its token \d+ is"):
        export(tmp_path / "model", gguf=tmp_path / "n.gguf", tokenizer_from=other)
    assert not (tmp_path / "n.gguf").exists()


def test_a_word_without_an_embedding(tmp_path, monkeypatch):
    """In the folder's own tokenizer, though the file has as many tokens as the model."""
    monkeypatch.setattr(runtime, "is_installed", lambda: False)
    save(build("tied"), tmp_path / "model", byte_tokenizer())
    file = export(tmp_path / "model", gguf=tmp_path / "own.gguf")
    definition = json.loads(byte_tokenizer().backend_tokenizer.to_str())
    definition["model"]["vocab"]["zz"] = 320  # the model has embeddings for 0 to 319
    larger = Tokenizer.from_str(json.dumps(definition))
    save(
        build("tied"),
        tmp_path / "larger",
        transformers.PreTrainedTokenizerFast(tokenizer_object=larger),
    )
    expected = (
        "the tokenizer of the model has the token 320, 'zz', and the model embeddings for 320"
    )
    with pytest.raises(DataError, match=expected):
        export(tmp_path / "larger", gguf=tmp_path / "n.gguf", tokenizer_from=file)
    assert not (tmp_path / "n.gguf").exists()
