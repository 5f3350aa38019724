"""The memory that `bench` reports is that of each model by itself."""

import sys

import pytest
import torch
from transformers import BertConfig, BertModel

from deadhead.errors import DeadheadError
from deadhead.heads import save
from deadhead.saved.bench import _flops, _peak_of_process, bench, inputs
from tiny_models import build

MIB = 2**20


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="where /proc has the peak of each process"
)
def test_the_peak_is_not_that_of_the_process_that_asks(tmp_path):
    save(build("bert").float(), tmp_path)
    ballast = torch.ones(
        1200 * MIB // 4
    )  # what this process has held shows in getrusage of every process it starts
    peak = _peak_of_process(str(tmp_path), 1, 8, ("cpu", "", "auto"))
    assert ballast.sum() > 0
    assert peak is not None
    assert 50 * MIB < peak < 1000 * MIB


@pytest.mark.parametrize("device", ["foo", "meta"])
def test_bench_on_a_device_that_is_none(device):
    with pytest.raises(DeadheadError, match="no device"):
        bench("a", "b", device=device)


def test_arithmetic_of_the_attention_is_counted():
    """Counted by hand: two products of length x length x width a layer, beside the weights."""
    config = BertConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=40,
    )
    model, length = BertModel(config, add_pooling_layer=False).eval(), 16
    weights = sum(
        p.numel()
        for name, p in model.named_parameters()
        if p.dim() == 2 and "embeddings" not in name
    )
    assert (
        _flops(model, inputs(model, 1, length))
        == 2 * length * weights + 3 * 2 * 2 * length * length * 24
    )
