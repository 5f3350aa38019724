"""A small trained classifier in which it is known what each head is worth.

Somewhere in each sentence stands one of two signs, and which one it is makes the label: only attention
can carry that to the first token, which the classifier reads. One head is trained to do it while all
others are closed; then some of those get weak random output weights, and some none at all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

from deadhead.heads import discover, gated
from deadhead.layout import Head

ESSENTIAL = Head("encoder", 0, 2)
USELESS = (Head("encoder", 0, 0), Head("encoder", 1, 1), Head("encoder", 1, 3))
LENGTH, WORDS = 7, 20
FIRST, SIGNS = WORDS + 1, WORDS + 2  # the first token, and the first of the two signs


def sentences(count: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS + 1, (count, LENGTH), generator=generator)
    words[:, 0] = FIRST
    place = torch.randint(1, LENGTH, (count,), generator=generator)
    sign = torch.randint(0, 2, (count,), generator=generator)
    words[torch.arange(count), place] = SIGNS + sign
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": sign}


@cache
def _trained() -> tuple[Any, float]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,
    )
    model = BertForSequenceClassification(config)
    others = [head for head in discover(model) if head != ESSENTIAL]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with gated(model, closed=others):
        for step in range(120):
            loss = model(**sentences(64, step)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            test = sentences(256, 9999)
            accuracy = float((model(**test).logits.argmax(-1) == test["labels"]).double().mean())
    with torch.no_grad():
        for head in others:
            out = model.bert.encoder.layer[head.layer].attention.output.dense.weight
            mine = out[:, head.index * 8 : head.index * 8 + 8]
            mine.copy_(torch.zeros_like(mine) if head in USELESS else 0.02 * torch.randn_like(mine))
    return model.eval().requires_grad_(False), accuracy


def planted() -> Any:
    """The model, ready for a ranker. Handle with care: it is shared."""
    model, accuracy = _trained()
    assert accuracy > 0.95, f"the planted model did not learn its task: {accuracy}"
    return model


def batches() -> list[dict[str, torch.Tensor]]:
    return [sentences(16, 1000 + i) for i in range(4)]


def assert_truth(scores: Any) -> None:
    """The essential head comes first and the useless ones last."""
    order = sorted(scores, key=scores.__getitem__)
    assert order[-1] == ESSENTIAL
    assert set(order[: len(USELESS)]) == set(USELESS)
