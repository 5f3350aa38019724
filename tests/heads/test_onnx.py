"""ONNX files answer as the model does; without the extra, the message says what to install."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tiny_models import build, build_class, uneven
from tokenizers import Tokenizer
from tokenizers import models as token_models
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import BertProcessing

from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.heads import export, load, prune, save
from deadhead.install import command


def word_tokenizer() -> Any:
    """A tokenizer of whole words that makes pairs as BERT's does: [CLS] a [SEP] b [SEP], the second one of type 1."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *[
            "the",
            "a",
            "parcel",
            "was",
            "sent",
            "got",
            "lost",
            "rivers",
            "rise",
            "in",
            "april",
            "er",
            "liest",
            "niemand",
        ],
    ]
    tokenizer = Tokenizer(
        token_models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{word}_token": f"[{word.upper()}]" for word in ("pad", "unk", "cls", "sep")}
    built = ["input_ids", "token_type_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=built, **names
    )


def answered(file: Path, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = session.run(None, {name: value.numpy() for name, value in batch.items()})
    return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "marian"])
def test_the_file_answers_as_the_model(family: str, tmp_path: Path) -> None:
    model = build(family).float()
    save(prune(model, uneven(model)), tmp_path / "model")
    path = export(tmp_path / "model", onnx=tmp_path / "deep" / "model.onnx")
    batch = {
        "input_ids": torch.randint(3, 90, (5, 21)),
        "attention_mask": torch.ones(5, 21, dtype=torch.long),
    }
    if family == "marian":
        batch["decoder_input_ids"] = torch.randint(3, 90, (5, 4))
    else:
        batch["token_type_ids"] = torch.randint(2, (5, 21))
    answer = answered(path, batch)
    assert list(answer) == ["logits"]
    with torch.no_grad():
        expected, whole = (
            load(tmp_path / "model").eval()(**batch).logits,
            build(family).float()(**batch).logits,
        )
    assert (answer["logits"] - expected).abs().max() < 1e-3
    assert (answer["logits"] - whole).abs().max() > 1e-1


@pytest.mark.slow
def test_copied_key_value_heads(tmp_path: Path) -> None:
    model = build("llama").float()
    batch = {"input_ids": torch.randint(3, 90, (5, 21))}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    whole = model(**batch).logits.detach()
    save(prune(model, ["decoder.0.1", "decoder.1.2"], groups="expand"), tmp_path / "model")
    path = export(tmp_path / "model", onnx=tmp_path / "model.onnx")
    logits = answered(path, batch)["logits"]
    assert (logits - model(**batch).logits.detach()).abs().max() < 1e-3
    assert (logits - whole).abs().max() > 1e-1


@pytest.mark.slow
@pytest.mark.parametrize("model_class", ["BertForSequenceClassification", "DebertaV2Model"])
def test_pairs_as_the_tokenizer_makes_them(model_class: str, tmp_path: Path) -> None:
    """Token types are inputs, and count where the model reads them; outputs have the names of transformers."""
    model, tokenizer = build_class(getattr(transformers, model_class)).float(), word_tokenizer()
    save(prune(model, ["encoder.0.1", "encoder.1.0"]), tmp_path / "model", tokenizer)
    path = export(tmp_path / "model", onnx=tmp_path / "model.onnx")
    pairs = [
        ("the parcel was sent in april", "the parcel got lost"),
        ("rivers rise", "niemand"),
        ("er liest", "a parcel"),
    ]
    for rows in (pairs, pairs[:1], pairs[1:]):
        batch = dict(
            tokenizer(*map(list, zip(*rows, strict=True)), padding=True, return_tensors="pt")
        )
        assert int(batch["token_type_ids"].max()) == 1
        answer = answered(path, batch)
        with torch.no_grad():
            expected = load(tmp_path / "model").eval()(**batch)
            without = load(tmp_path / "model").eval()(
                **{**batch, "token_type_ids": torch.zeros_like(batch["token_type_ids"])}
            )
        assert list(answer) == [
            name for name in expected if isinstance(expected[name], torch.Tensor)
        ]
        for name, value in answer.items():
            assert (value - expected[name]).abs().max() < 1e-3, name
            if (
                model_class != "DebertaV2Model"
            ):  # which is built without types here, and must still take what the tokenizer makes
                assert (value - without[name]).abs().max() > 1e-2, name


def test_a_file_that_answers_differently_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Liar:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, _: object, inputs: dict[str, object]) -> list[object]:
            return [torch.zeros(*inputs["input_ids"].shape, 99).numpy()]  # type: ignore[attr-defined]

    class Program:
        model = SimpleNamespace(graph=SimpleNamespace(inputs=[]))

        def save(self, path: Path, **_: object) -> None:
            path.write_bytes(b"a graph")

    monkeypatch.setattr("onnxruntime.InferenceSession", Liar)
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: Program())
    save(build("bert").float(), tmp_path / "model")
    for name in ("model.onnx", "folder"):
        with pytest.raises(DeadheadError, match="answers differently from the model"):
            export(tmp_path / "model", onnx=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["model.onnx", "folder"])
def test_a_full_disk_is_one_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deadhead.heads.exports.onnx.export.write", full)
    save(build("bert").float(), tmp_path / "model")
    with pytest.raises(FolderError, match=f"{name} cannot be written: No space left on device"):
        export(tmp_path / "model", onnx=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    save(build("bert").float(), tmp_path / "model")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for folder in ("model", "notes"):
        with pytest.raises(FolderError, match="holds other files than an ONNX export"):
            export(tmp_path / "model", onnx=tmp_path / folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra) as error:
        export(tmp_path, onnx=tmp_path / "model.onnx")
    assert "onnxruntime" in error.value.message
    assert error.value.hint == command("onnx")


def test_a_folder_is_no_file_and_a_picture_no_text(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(UnsupportedModel, match="expected a file, got a folder"):
        export(tmp_path, onnx=tmp_path / "folder.onnx")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedModel, match="expected a file, got something that is no file"):
        export(tmp_path, onnx=tmp_path / "pipe")
    save(build("vit").float(), tmp_path / "vit")
    with pytest.raises(UnsupportedModel, match="expected a model that reads text"):
        export(tmp_path / "vit", onnx=tmp_path / "vit.onnx")
