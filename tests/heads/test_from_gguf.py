"""A model that transformers read from a GGUF file is an ordinary model; a packed one is refused."""

import json
from types import SimpleNamespace

import pytest
import torch

from deadhead.errors import UnsupportedModel
from deadhead.heads import load, prune, save
from deadhead.heads.unpacked import drop_mark, is_packed
from tiny_models import build


@pytest.fixture
def marked():
    """A tiny Llama with the marks that `from_pretrained(gguf_file=...)` leaves."""
    model = build("llama")
    settings = SimpleNamespace(quant_method="gguf")
    model.hf_quantizer = SimpleNamespace(quantization_config=settings)
    model.is_quantized = True
    model.config.quantization_config = {"quant_method": "gguf"}
    return model


def test_a_model_of_floats_is_cut_and_saved(marked, tmp_path):
    assert not is_packed(marked)
    folder = save(prune(marked, ["decoder.0.0", "decoder.0.1"]), tmp_path / "small")
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert type(load(folder)) is type(marked)
    assert not hasattr(marked, "hf_quantizer")


def test_packed_weights_are_refused(marked):
    packed = torch.zeros(4, 4, dtype=torch.uint8)
    marked.lm_head.weight = torch.nn.Parameter(packed, requires_grad=False)
    with pytest.raises(UnsupportedModel, match="quantised"):
        prune(marked, ["decoder.0.0", "decoder.0.1"])
    drop_mark(marked)
    assert marked.is_quantized  # or the next call would not refuse it
