"""Mistakes with a BERT, a GPT-2 and a T5: one error that says what to type next, and works."""

import os

import pytest
import torch
import transformers
from command_line import clean
from transformers import AutoTokenizer

from deadhead import save
from deadhead.world import MODELS

POSITIONS = 64
TEXT = ("--text", "text.txt", "--loss", "self", "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text, a folder without anything, and models."""
    folder = tmp_path_factory.mktemp("wrong")
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
    torch.manual_seed(0)
    size = len(tokenizer)
    bert = transformers.BertConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=POSITIONS,
    )  # fmt: skip
    gpt2 = transformers.GPT2Config(vocab_size=size, n_embd=32, n_layer=1, n_head=4)
    t5 = transformers.T5Config(
        vocab_size=size, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    save(transformers.BertForMaskedLM(bert), folder / "bert", tokenizer)
    save(transformers.GPT2LMHeadModel(gpt2), folder / "gpt2", tokenizer)
    save(transformers.T5ForConditionalGeneration(t5), folder / "t5", tokenizer)
    (folder / "text.txt").write_text("Maria bought a red car .\n" * 60)
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ("shrink", "bert", *TEXT, "--remove-heads", 2, "--on", "4x500", "--out", "o"),
            "at most the 64 positions of this model, got 500 tokens",
            "--on 4x64",
        ),
        (
            ("shrink", "bert", *TEXT, "--keep-macs", "0.5%", "--out", "o"),
            "`macs` expects at least",
            " or --keep-macs 5",
        ),
        (
            ("shrink", "bert", *TEXT, "--speedup", 900, "--on", "2x64", "--out", "o"),
            "got 900",
            "--on 8x64",  # not more tokens, for which it has no positions
        ),
        (
            ("shrink", "bert", "--task", "empty", "--remove-heads", 2, "--out", "o"),
            "empty: a folder is no task file",
            "name a YAML file",
        ),
        (
            ("rank", "bert", "--text", "empty", "--loss", "self", "--out", "o.json"),
            "the folder empty has no file",
            "name the files",
        ),
        (
            ("prune", "bert", "--remove-lowest", 1, "--ranking", "empty", "--out", "o"),
            "empty is a folder, not the file of a ranking",
            "deadhead rank MODEL",
        ),
        (
            ("prune", "gpt2", "--remove-heads", "encoder.0.1", "--out", "o"),
            "expected a block of the model, got 'encoder'",
            "the model has: decoder",
        ),
        (
            ("bench", "gpt2", "--against", "gpt2", "--batch-sizes", 0),
            "`batch` expects numbers of at least 1, got 0",
            "--batch-sizes 1,8",
        ),
    ],
)
def test_the_hint_can_be_typed(folder, run_command, monkeypatch, words, message, hint):
    monkeypatch.chdir(folder)
    done = run_command(*words)
    assert done.code == 1
    assert clean(done)
    before, _, after = done.err.partition("Hint: ")
    assert message in before
    assert hint in after
    assert "Errno" not in done.err
    assert not {"o", "o.json"} & {*os.listdir(folder)}


def test_no_hint_to_do_what_was_done(folder, run_command, monkeypatch):
    """An encoder-decoder reads the labels of a task, also with --loss self."""
    monkeypatch.chdir(folder)
    data = ("--task", "pos", "--lang", "en", "--data", "world", "--device", "cpu")
    done = run_command("rank", "t5", *data, "--loss", "self", "--out", "o.json")
    assert done.code == 1
    assert "does not fit pos" in done.err
    assert "--loss self" not in done.err
    done = run_command("rank", "bert", *data, "--out", "o.json")
    assert "go without labels: --loss self" in done.err


def test_a_loss_that_rounds_to_nothing_has_no_sign(folder, run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("deadhead.shrinking.calibration.mean_loss", lambda *_: -1e-9)
    done = run_command(
        "shrink", "bert", *TEXT, "--remove-heads", 1, "--on", "2x8", "--out", tmp_path / "s"
    )
    assert done.code == 0, done.err
    assert "0.0000" in done.out
    assert "-0.0000" not in done.out


def test_a_name_longer_than_a_file_can_have(run_command):
    done = run_command("evaluate", "model", "--task", "a" * 5000 + ".yaml")
    assert done.code == 1
    assert "aaa...: this name is longer than a file can have" in done.err
    assert "Traceback" not in done.err
