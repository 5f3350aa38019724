"""`deadhead shrink --vocabulary`: alone, with another target, and its errors."""

import gzip
import json

import pytest
import torch
import transformers
from command_line import clean

from deadhead import discover, load, save, trim_vocabulary
from deadhead.tasks import load_data
from deadhead.world import MODELS
from tiny_sentence_encoders import TEXTS, open_encoder, sentence_encoder

ENCODER = MODELS / "encoder"
LINES = [*TEXTS, "Maria kaufte ein Auto .\tShe sings .", "Der Hund schläft ."]


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(LINES), encoding="utf-8")
    return file


def test_alone_it_needs_no_data(tmp_path, text, run_command):
    out = tmp_path / "small"
    done = run_command("shrink", "world/encoder", "--vocabulary", text, "--out", out, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    whole, small = load(ENCODER), load(out)
    assert facts["tokens"] == [whole.config.vocab_size, small.config.vocab_size]
    assert facts["parameters"] == [sum(p.numel() for p in m.parameters()) for m in (whole, small)]
    megabytes = [
        number * getattr(torch, facts["dtype"]).itemsize / 1e6 for number in facts["parameters"]
    ]
    assert facts["megabytes"] == pytest.approx(megabytes, abs=1e-3)
    assert 0 <= facts["changed"] <= 1
    assert facts["bytes"] / 1e6 == pytest.approx(megabytes[1], rel=0.05)  # as the source is stored
    read = transformers.AutoTokenizer.from_pretrained
    for part in " ".join(LINES).split("\t"):
        assert read(out).tokenize(part) == read(ENCODER).tokenize(part)
    tokens = f"{small.config.vocab_size:,} of {whole.config.vocab_size:,} tokens left"
    assert tokens in (out / "README.md").read_text(encoding="utf-8")
    other = tmp_path / "other"
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "text.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    done = run_command("shrink", out, "--vocabulary", text, "--vocabulary", packed, "--out", other)
    assert done.code == 0, done.err
    assert "100.0%" in done.out
    assert "would be encoded otherwise" in done.out


def test_with_another_target(tmp_path, text, run_command):
    out, words = tmp_path / "small", ("--loss", "self", "--remove-heads", 10, "--on", "2x16")
    rows = load_data("pos", "en", "dev", root="world").rows[:60]
    data = tmp_path / "data.txt"
    data.write_text("\n".join(" ".join(row.texts) for row in rows), encoding="utf-8")
    what = ("--text", data, *words, "--vocabulary", text, "--device", "cpu")
    done = run_command("shrink", "world/encoder", *what, "--out", out, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    small = load(out)
    assert facts["vocabulary"]["tokens"] == [3000, small.config.vocab_size]
    assert facts["sizes"]["parameters"][1] == sum(p.numel() for p in small.parameters())
    assert len(discover(small)) == 30
    assert len(transformers.AutoTokenizer.from_pretrained(out)) == small.config.vocab_size


def test_a_folder_of_sentence_transformers(tmp_path, text, run_command):
    folder, out = sentence_encoder(tmp_path / "whole"), tmp_path / "small"
    prompts = {"prompts": {"query": "Deutschland : "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    for name in ("vocab.txt", "merges.txt"):  # beside tokenizer.json, of an earlier transformers
        (folder / name).write_text("stale")
    done = run_command("shrink", folder, "--vocabulary", text, "--out", out)
    assert done.code == 0, done.err
    assert not any((out / name).exists() for name in ("vocab.txt", "merges.txt"))
    embeddings = [open_encoder(f).encode(TEXTS, convert_to_tensor=True) for f in (folder, out)]
    assert torch.equal(*embeddings)
    tokens = [transformers.AutoTokenizer.from_pretrained(f) for f in (folder, out)]
    assert tokens[1].tokenize("Deutschland : ") == tokens[0].tokenize("Deutschland : ")
    assert len(tokens[1]) < len(tokens[0])


def test_tokens_of_the_generation_config_are_kept(tmp_path, text, run_command):
    folder, out = tmp_path / "whole", tmp_path / "small"
    tokenizer = transformers.AutoTokenizer.from_pretrained(ENCODER)
    settings = {"n_embd": 12, "n_head": 2, "n_layer": 1, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.GPT2Config(vocab_size=len(tokenizer), pad_token_id=0, **settings)
    model = transformers.GPT2LMHeadModel(config)
    word = len(tokenizer) - 1
    model.generation_config.eos_token_id = [3, word]
    save(model, folder, tokenizer)
    done = run_command("shrink", folder, "--vocabulary", text, "--out", out)
    assert done.code == 0, done.err
    whole = load(folder)
    trimmed = trim_vocabulary(whole, tokenizer, LINES)
    small = load(out)
    assert word in trimmed.kept
    expected = [trimmed.kept.index(3), trimmed.kept.index(word)]
    assert small.generation_config.eos_token_id == expected == whole.generation_config.eos_token_id
    assert small.config.vocab_size == whole.config.vocab_size


def test_mistakes(tmp_path, text, run_command):
    chinese, empty = tmp_path / "chinese.txt", tmp_path / "empty.txt"
    chinese.write_text("北京 欢迎 你\n", encoding="utf-8")
    empty.write_text("\n")
    tokenizer = transformers.AutoTokenizer.from_pretrained(ENCODER)
    model = load(ENCODER)
    model.config.sep_token_id = 9999
    broken = save(model, tmp_path / "broken", tokenizer)
    model = transformers.BertModel(transformers.BertConfig(vocab_size=500, hidden_size=12))
    other = save(model, tmp_path / "other", tokenizer)
    for source, file, more, message in (
        ("world/encoder", chinese, (), "the tokenizer does not know the texts"),
        ("world/encoder", empty, (), "has no text"),
        ("world/encoder", tmp_path / "no.txt", (), "there is no file"),
        ("world/encoder", text, ("--text", text), "reads no data without another target"),
        (broken, text, (), "sep_token_id = 9999, which is no token"),
        (other, text, (), "has 3,000 sub-words and the model knows 500"),
    ):
        words = ("--vocabulary", file, *more, "--out", tmp_path / "out")
        done = run_command("shrink", source, *words)
        assert done.code in (1, 2)
        assert message in done.message
        assert clean(done)
        assert not (tmp_path / "out").exists()
