"""Tiny models and labelled texts to calibrate on, for tests of `shrink`."""

import copy
from functools import cache
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

QUIET = {"progress": False, "on": (2, 8)}


@cache
def _built(family):
    torch.manual_seed(0)
    shared = {"vocab_size": 40, "initializer_range": 0.3, "pad_token_id": 0}
    shared |= {"max_position_embeddings": 32}
    if family == "bert":
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = BertConfig(intermediate_size=24, num_labels=3, **size, **shared)
        model: Any = BertForSequenceClassification(config)
    elif family == "llama":
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = LlamaConfig(intermediate_size=24, num_key_value_heads=2, **size, **shared)
        model = LlamaForCausalLM(config)
    else:
        size = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 24}
        config = T5Config(decoder_start_token_id=0, vocab_size=40, initializer_factor=2.0, **size)
        model = T5ForConditionalGeneration(config)
    return model.double().eval()


def build(family="bert"):
    return copy.deepcopy(_built(family))


def data(family="bert", size=16):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 40, (96, 8), generator=draw)
    mask = torch.ones_like(ids)
    mask[::3, 6:] = 0
    ids = ids * mask
    labels = ids.sum(1) % 3 if family == "bert" else ids.masked_fill(mask == 0, -100)
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return [
        {name: value[i : i + size] for name, value in batch.items()} for i in range(0, 96, size)
    ]
