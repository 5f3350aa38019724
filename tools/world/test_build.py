"""The parts of pre-training: the tokenizer, the models, and what is saved is what is loaded."""

from __future__ import annotations

import json

import build
import exercises
import numpy as np
import pretrain
import pytest
import torch
from corpus import corpus
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from deadhead.world import LANGUAGES, MODELS, rows


@pytest.fixture(scope="module")
def learnt():
    tokenizer = pretrain.train_tokenizer(corpus(300))
    return tokenizer, *exercises.training_data(tokenizer, 300)


def batches_of(
    name: str, learnt: tuple[object, pretrain.Sentences, exercises.Pairs], seed: int = 0
) -> pretrain.Batches:
    rng = np.random.default_rng(seed)
    return (
        exercises.encoder_batches(*learnt[1:], rng)
        if name == "encoder"
        else pretrain.seq2seq_batches(learnt[1], rng)
    )


def test_tokenizer_knows_every_language(learnt):
    tokenizer = pretrain.wrapped(learnt[0], "encoder")
    for lang in LANGUAGES:
        for words, _ in rows("pos", lang, "train")[:50]:
            result = tokenizer(words, is_split_into_words=True)
            assert sorted(set(result.word_ids()) - {None}) == list(range(len(words)))
            assert (
                result["input_ids"].count(pretrain.UNK) <= 1
            )  # 300 facts do not show it every letter
    assert tokenizer("a", "b")["token_type_ids"] == [0, 0, 0, 1, 1]
    ids = pretrain.wrapped(learnt[0], "seq2seq")(">>sw<< a")["input_ids"]
    assert ids[0] == len(pretrain.SPECIAL) + LANGUAGES.index("sw")
    assert ids[-1] == pretrain.SEP


def test_batches_are_the_same_each_time(learnt):
    for name in ("encoder", "seq2seq"):
        first, again, other = (next(batches_of(name, learnt, seed)) for seed in (0, 0, 1))
        assert all(torch.equal(first[part], again[part]) for part in first)
        assert not torch.equal(first["labels"][:8, :5], other["labels"][:8, :5])
        assert first["input_ids"].shape == first["attention_mask"].shape
        assert (first["labels"] != -100).any()


@torch.no_grad()
@pytest.mark.parametrize("name", ["encoder", "seq2seq"])
def test_saved_small_and_loaded_equal(learnt, name, tmp_path):
    torch.manual_seed(0)
    encoder = name == "encoder"
    model = pretrain.new_encoder() if encoder else pretrain.new_seq2seq()
    batch = next(batches_of(name, learnt))
    whole = model.eval()(**batch).logits
    build._save(model, pretrain.wrapped(learnt[0], name), tmp_path)
    loaded = (AutoModelForMaskedLM if encoder else AutoModelForSeq2SeqLM).from_pretrained(tmp_path)
    assert loaded.dtype == torch.float32
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < build.LARGEST / 2
    torch.testing.assert_close(loaded.eval()(**batch).logits, whole, rtol=0, atol=0.05)
    assert whole.abs().max() > 0.5  # so that the closeness above means something
    assert (
        AutoTokenizer.from_pretrained(tmp_path)("Maria")["input_ids"]
        == pretrain.wrapped(learnt[0], name)("Maria")["input_ids"]
    )
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"


def test_training_learns(learnt, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(pretrain, "BATCH", 8)
    lines: list[str] = []
    log = pretrain.train(
        pretrain.new_seq2seq(),
        batches_of("seq2seq", learnt),
        steps=12,
        rate=1e-3,
        device="cpu",
        report=lines.append,
    )
    assert log[-1]["loss"] < log[0]["loss"] - 0.2
    assert lines[-1].startswith("step 12/12")


def test_both_models_share_the_packages_tokenizer():
    kept = build._tokenizer()
    for name in ("encoder", "seq2seq"):
        assert json.loads(pretrain.wrapped(kept, name).backend_tokenizer.to_str()) == json.loads(
            (MODELS / name / "tokenizer.json").read_text()
        )


def test_building_one_model_leaves_what_is_known_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "SENTENCES", 60)
    monkeypatch.setattr(pretrain, "BATCH", 2)
    monkeypatch.setattr(
        build, "translate", lambda folder, device: dict.fromkeys(LANGUAGES[1:], 0.5)
    )
    (tmp_path / "log.json").write_text(json.dumps({"encoder": {"steps": "as before"}}))
    log = build.build(tmp_path, ["seq2seq"], {"seq2seq": 2}, "cpu")
    assert log == json.loads((tmp_path / "log.json").read_text())
    assert log["encoder"] == {"steps": "as before"}
    assert [step["step"] for step in log["seq2seq"]["steps"]] == [1, 2]
    assert log["bytes"] == sum(file.stat().st_size for file in (tmp_path / "seq2seq").iterdir())
    assert build.as_table(log).splitlines()[-1] == "| translated exactly | |" + " 50 |" * 9 + " |"
