"""The parts of pre-training: the tokenizer, what is masked and asked for, and that what is saved is what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from deadhead.world import LANGUAGES, build, pretrain, rows


@pytest.fixture(scope="module")
def learnt() -> tuple[object, pretrain.Sentences]:
    before, pretrain.SENTENCES = pretrain.SENTENCES, 300
    spoken = pretrain.spoken()
    pretrain.SENTENCES = before
    tokenizer = pretrain.train_tokenizer(spoken)
    return tokenizer, pretrain.encoded(tokenizer, spoken)


def test_tokenizer_knows_every_language(learnt: tuple[object, pretrain.Sentences]) -> None:
    tokenizer = pretrain.wrapped(learnt[0], "encoder")
    for lang in LANGUAGES:
        for words, _ in rows("pos", lang, "train")[:50]:
            found = tokenizer(words, is_split_into_words=True)
            assert sorted(set(found.word_ids()) - {None}) == list(range(len(words)))
            assert found["input_ids"].count(pretrain.UNK) <= 1  # 300 facts do not show it every letter
    assert tokenizer("a", "b")["token_type_ids"] == [0, 0, 0, 1, 1]
    marked = pretrain.wrapped(learnt[0], "seq2seq")(">>sw<< a")["input_ids"]
    assert marked[0] == len(pretrain.SPECIAL) + LANGUAGES.index("sw")
    assert marked[-1] == pretrain.SEP


def test_only_what_is_chosen_is_masked() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, pretrain.VOCABULARY, (40, 50))
    untouched, nothing = pretrain.masked(ids, np.zeros((40, 1)), rng)
    assert (untouched == ids).all()
    assert (nothing == -100).all()
    given, labels = pretrain.masked(ids, np.ones((40, 1)), rng)
    words = ids >= len(pretrain.SPECIAL)
    assert (labels == np.where(words, ids, -100)).all()
    assert (given[~words] == ids[~words]).all()
    assert 0.75 < (given == pretrain.MASK)[words].mean() < 0.85


def test_counterparts_are_translations(learnt: tuple[object, pretrain.Sentences]) -> None:
    sentences = learnt[1]
    en, de = sentences[0][0], sentences[0][1]
    found = [pretrain.counterparts(en, de, Random(seed)) for seed in range(20)]
    assert any(found)
    for asked in found:
        for at, token in asked.items():
            concept = next(name for name, place in en.concepts.items() if place == at - 1)
            assert token == de.ids[de.concepts[concept]]


def test_batches_are_the_same_each_time(learnt: tuple[object, pretrain.Sentences]) -> None:
    for make in (pretrain.encoder_batches, pretrain.seq2seq_batches):
        one, again, other = (next(make(learnt[1], np.random.default_rng(seed))) for seed in (0, 0, 1))
        assert all(torch.equal(one[name], again[name]) for name in one)
        assert not torch.equal(one["labels"][:8, :5], other["labels"][:8, :5])
        assert one["input_ids"].shape == one["attention_mask"].shape
        assert (one["labels"] != -100).any()


@torch.no_grad()
@pytest.mark.parametrize("name", ["encoder", "seq2seq"])
def test_saved_small_and_loaded_alike(learnt: tuple[object, pretrain.Sentences], name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = name == "encoder"
    model = pretrain.new_encoder() if encoder else pretrain.new_seq2seq()
    batch = next((pretrain.encoder_batches if encoder else pretrain.seq2seq_batches)(learnt[1], np.random.default_rng(0)))
    whole = model.eval()(**batch).logits
    build._save(model, pretrain.wrapped(learnt[0], name), tmp_path)
    loaded = (AutoModelForMaskedLM if encoder else AutoModelForSeq2SeqLM).from_pretrained(tmp_path)
    assert loaded.dtype == torch.float32
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < build.LARGEST / 2
    torch.testing.assert_close(loaded.eval()(**batch).logits, whole, rtol=0, atol=0.05)
    assert whole.abs().max() > 0.5  # so that the closeness above means something
    assert AutoTokenizer.from_pretrained(tmp_path)("Maria")["input_ids"] == pretrain.wrapped(learnt[0], name)("Maria")["input_ids"]
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"


def test_training_learns(learnt: tuple[object, pretrain.Sentences], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(pretrain, "BATCH", 8)
    lines: list[str] = []
    batches = pretrain.seq2seq_batches(learnt[1], np.random.default_rng(0))
    log = pretrain.train(pretrain.new_seq2seq(), batches, 12, 1e-3, "cpu", lines.append)
    assert log[-1]["loss"] < log[0]["loss"] - 0.2
    assert lines[-1].startswith("step 12/12")
