"""Distillation brings a pruned model nearer to the whole one, and reads no labels."""

import copy

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from deadhead.heads import discover, prune
from deadhead.training import Settings, distill


def models():
    """A small model without half of its heads, and the whole one."""
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=50, intermediate_size=16, initializer_range=0.3, **size)
    whole = BertForSequenceClassification(config).eval()
    small = copy.deepcopy(whole)
    prune(small, list(discover(small))[::2])
    return small, whole


def data(labels=False):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 50, (24, 6), generator=draw)
    more = {"labels": torch.zeros(24, dtype=torch.long)} if labels else {}
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more}
    return [{name: value[i : i + 8] for name, value in batch.items()} for i in (0, 8, 16)]


def test_it_brings_the_outputs_nearer():
    small, whole = models()
    before = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    losses = distill(small, whole, data(), Settings(epochs=6, rate=3e-3), progress=False)
    assert len(losses) == 6
    assert losses[-1] < 0.5 * losses[0]
    assert not small.training
    assert all(torch.equal(before[name], tensor) for name, tensor in whole.state_dict().items())


def test_labels_change_nothing():
    results = []
    for labels in (False, True):
        small, whole = models()
        results.append(distill(small, whole, data(labels), Settings(epochs=2), progress=False))
    assert results[0] == results[1]


def test_the_mode_comes_back_after_an_error():
    small, whole = models()
    ids = torch.full((2, 3), 9)
    batch = {"input_ids": ids, "token_type_ids": ids}  # no such type
    with pytest.raises(IndexError):
        distill(small, whole, [batch], progress=False)
    assert not any(module.training for module in small.modules())
