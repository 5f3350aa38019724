"""One export of an encoder for all tests that read it, and what speeds up torch's exporter."""

import copy
import gc
import logging
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class ExportedEncoder(NamedTuple):
    whole: Any
    closed: dict[str, Any]  # the removed units, as arguments of `gated`
    model: Path  # its folder
    file: Path  # the ONNX file
    program: Any  # what torch's exporter returned


@pytest.fixture(scope="session")
def quick_exporter():
    """torch translates and lists its library of operators for each graph: here only for the first.

    It keeps what each operation gives for each shape, which costs more than it saves here. An
    export creates hardly any garbage before it ends, so garbage collection waits.
    pytest listens to every logger, and torch describes each decision about a shape to any listener.
    """
    import torch
    import torch._dynamo
    import torch._export.utils
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    export = torch.onnx.export

    def quick(*values, **options):
        gc.disable()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
                return export(*values, **options)
        finally:
            gc.enable()

    uncached = torch._dynamo.config.patch(fake_tensor_cache_enabled=False)
    with uncached, pytest.MonkeyPatch.context() as patch:
        registry = staticmethod(cache(ONNXRegistry.from_torchlib))
        patch.setattr(ONNXRegistry, "from_torchlib", registry)
        listed = cache(torch._export.utils._collect_all_valid_cia_ops_for_namespace)
        patch.setattr(torch._export.utils, "_collect_all_valid_cia_ops_for_namespace", listed)
        patch.setattr(torch.onnx, "export", quick)
        yield


@pytest.fixture(scope="session")
def encoder(tmp_path_factory, quick_exporter):
    """A layer without heads and output bias, and one with fewer heads and no neurons."""
    import torch
    from transformers import BertForSequenceClassification

    from deadhead.exports import export
    from deadhead.heads import prune, save
    from tiny_models import build_class
    from word_tokenizer import word_tokenizer

    whole = build_class(BertForSequenceClassification).float()
    place = tmp_path_factory.mktemp("encoder")
    heads = [*(f"encoder.0.{number}" for number in range(4)), "encoder.1.2"]
    neurons = {("encoder", 0): range(0, 48, 3), ("encoder", 1): range(48)}
    small = prune(copy.deepcopy(whole), heads, neurons=neurons, drop_output_bias=True)
    save(small, place / "model", word_tokenizer())
    programs: list[Any] = []
    write = torch.onnx.export

    def noted(*values, **options):
        programs.append(write(*values, **options))
        return programs[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", noted)
        file = export(place / "model", onnx=place / "deep" / "model.onnx")
    closed = {"closed": heads, "neurons": neurons, "drop_output_bias": True}
    return ExportedEncoder(whole, closed, place / "model", file, programs[0])


@pytest.fixture
def traced_encoder(encoder, monkeypatch):
    """Exports of the encoder do all but trace it again."""
    import torch

    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: encoder.program)
    return encoder
