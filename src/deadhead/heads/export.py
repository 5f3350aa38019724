"""A pruned model as ONNX, made by torch's exporter and compared with the model it came from."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from .folder import load, quiet

LIMIT = 1e-4  # of the largest output, for a model computed in float32 by two runtimes


def export(folder: str | Path, *, onnx: str | Path, auto: Any = None, dtype: Any = torch.float32) -> Path:
    """Write the model in `folder` as an ONNX file with free batch size and length, and check it.

    The file takes `input_ids` and `attention_mask` (and `decoder_input_ids` for an encoder-decoder) and
    gives the logits, or the last hidden states of a model without a task layer.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise MissingExtra(str(missing.name), "onnx", "exporting to ONNX") from missing
    target = Path(onnx)
    if target.is_dir():
        raise UnsupportedModel(f"{target} is a folder.", f"name a file, for instance {target / 'model.onnx'}")
    if target.exists() and not target.is_file():
        raise UnsupportedModel(f"{target} is no file that can be replaced.", "name a file, for instance model.onnx")
    model = load(folder, auto=auto, dtype=dtype, attn_implementation="eager").eval()
    if "input_ids" not in getattr(model, "main_input_name", "input_ids"):
        raise UnsupportedModel(f"{type(model).__name__} does not read text; only models over input_ids are exported.")
    plain = _Plain(model)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.draft")  # what was there before stays until the new file is proved
        draft.touch()
    except OSError as problem:
        raise FolderError(f"{target} cannot be written: {problem.strerror}.", "name a file in a folder you may write to") from problem
    try:
        _write(plain, _inputs(model, 2, 9), draft)
        session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
        for size, words in ((2, 9), (3, 14)):
            _compare(plain, session, _inputs(model, size, words))
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def _write(plain: _Plain, inputs: dict[str, torch.Tensor], file: Path) -> None:
    batch, length, answer = torch.export.Dim("batch"), torch.export.Dim("length"), torch.export.Dim("answer_length")
    shapes = tuple({0: batch, 1: answer if name.startswith("decoder") else length} for name in inputs)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports every optional package it can do without
    with warnings.catch_warnings(), quiet(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                plain, tuple(inputs.values()), file, input_names=list(inputs), output_names=["output"],
                dynamic_shapes=shapes, dynamo=True, external_data=False, verbose=False,
            )  # fmt: skip
        except torch.onnx.errors.OnnxExporterError as problem:
            reason = str(problem).strip().splitlines()[0]
            raise UnsupportedModel(f"torch's exporter cannot write {type(plain.model).__name__} as ONNX: {reason}") from problem


def _compare(plain: _Plain, session: Any, inputs: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        wanted = plain(*inputs.values())
    met = torch.from_numpy(session.run(None, {k: v.numpy() for k, v in inputs.items()})[0])
    gap = float((wanted - met).abs().max() / wanted.abs().max())
    if not gap <= LIMIT:
        raise DeadheadError(f"the ONNX file answers differently from the model (by {gap:.1e} of the largest output), so it was not kept.")


class _Plain(nn.Module):
    """The model as a function of tensors alone, which is what the exporter wants."""

    def __init__(self, model: Any):
        super().__init__()
        self.model, self.two = model, bool(model.config.is_encoder_decoder)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor | None = None) -> torch.Tensor:
        extra = {"decoder_input_ids": decoder_input_ids} if self.two else {}
        answer = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False, **extra)
        return answer.logits if hasattr(answer, "logits") else answer.last_hidden_state


def _inputs(model: Any, batch: int, length: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    words = int(model.get_input_embeddings().weight.shape[0])
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length // 2 :] = 0
    inputs = {"input_ids": torch.randint(3, words, (batch, length)), "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, words, (batch, length - 2))
    return inputs
