"""ONNX files answer as the model does; without the extra, the message says what to install."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from tiny_models import build, uneven

from deadhead.errors import DeadheadError, MissingExtra, UnsupportedModel
from deadhead.heads import export, load, prune, save
from deadhead.heads import export as export_function

exporting = sys.modules[export_function.__module__]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "marian"])
def test_the_file_answers_as_the_model(family: str, tmp_path: Path) -> None:
    import onnxruntime

    model = build(family).float()
    save(prune(model, uneven(model)), tmp_path / "model")
    path = export(tmp_path / "model", onnx=tmp_path / "deep" / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    batch = {"input_ids": torch.randint(3, 90, (5, 21)), "attention_mask": torch.ones(5, 21, dtype=torch.long)}
    if family == "marian":
        batch["decoder_input_ids"] = torch.randint(3, 90, (5, 4))
    (met,) = session.run(None, {k: v.numpy() for k, v in batch.items()})
    with torch.no_grad():
        wanted, whole = load(tmp_path / "model").eval()(**batch).logits, build(family).float()(**batch).logits
    assert (torch.from_numpy(met) - wanted).abs().max() < 1e-3
    assert (torch.from_numpy(met) - whole).abs().max() > 1e-1


def test_a_file_that_answers_differently_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, _: object, inputs: dict[str, object]) -> list[object]:
            return [torch.zeros(*inputs["input_ids"].shape, 99).numpy()]  # type: ignore[attr-defined]

    def written(model: object, args: object, path: Path, **_: object) -> None:
        path.write_bytes(b"a graph")

    monkeypatch.setattr("onnxruntime.InferenceSession", Liar)
    monkeypatch.setattr(torch.onnx, "export", written)
    save(build("bert").float(), tmp_path / "model")
    with pytest.raises(DeadheadError, match="answers differently from the model"):
        export(tmp_path / "model", onnx=tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra) as met:
        export(tmp_path, onnx=tmp_path / "model.onnx")
    assert "onnxruntime" in met.value.message
    assert met.value.mend == 'pip install "deadhead[onnx]"'


def test_a_folder_is_no_file_and_a_picture_no_text(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="is a folder"):
        export(tmp_path, onnx=tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedModel, match="is no file that can be replaced"):
        export(tmp_path, onnx=tmp_path / "pipe")
    save(build("vit").float(), tmp_path / "vit")
    with pytest.raises(UnsupportedModel, match="does not read text"):
        export(tmp_path / "vit", onnx=tmp_path / "vit.onnx")
