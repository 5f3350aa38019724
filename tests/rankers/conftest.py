"""Small models and batches that the tests of this room share."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from ranker_cases import KINDS, Batch, make_case
from transformers import BertConfig, BertForSequenceClassification

from deadhead.heads.discover import discover, find_sites
from deadhead.heads.gates import gated
from deadhead.layout import Head


@pytest.fixture(scope="session")
def cases():
    return {kind: make_case(kind) for kind in KINDS}


@pytest.fixture
def case(cases):
    """A fresh copy of the case of a kind."""
    return lambda kind: copy.deepcopy(cases[kind])


USELESS = tuple(Head("encoder", layer, index) for layer, index in ((0, 0), (0, 3), (1, 1)))
ESSENTIAL = Head("encoder", 1, 2)


@dataclass
class Planted:
    """A trained model in which three heads do nothing and one does nearly all, with data it has learnt."""

    model: Any
    batches: list[Batch]
    useless: tuple[Head, ...] = USELESS
    essential: Head = ESSENTIAL


@pytest.fixture(scope="session")
def planted_once():
    """Find the one token of the sentence that names its class: the first position can only do so by attention.

    The essential head learns it alone; then the others join in, but for the useless ones, whose output
    weights are 0 (and whose query and key weights too, or statistics of attention could not know them).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _planted()
    finally:
        torch.set_num_threads(threads)


@pytest.fixture
def planted(planted_once):
    return copy.deepcopy(planted_once)


def sentences(count: int, draw: torch.Generator) -> Batch:
    labels = torch.randint(0, 4, (count,), generator=draw)
    ids = torch.randint(10, 40, (count, 10), generator=draw)
    ids[:, 0] = 1
    places = torch.randint(1, 7, (count,), generator=draw)
    ids[torch.arange(count), places] = 2 + labels
    mask = (torch.arange(10)[None] < torch.randint(7, 11, (count,), generator=draw)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def _planted() -> Planted:
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, num_labels=4,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    _plant(model)
    others = [head for head in discover(model) if head != ESSENTIAL]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(220):
        with gated(model, closed=others if step < 160 else USELESS):
            loss = model(**sentences(32, draw)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    _plant(model)
    assert float(loss.detach()) < 0.1, "the planted model did not learn its task"
    return Planted(model.eval(), [sentences(16, draw) for _ in range(4)])


@torch.no_grad()
def _plant(model):
    for site in find_sites(model):
        for head in USELESS:
            if head.layer == site.layer:
                span = slice(head.index * site.width, (head.index + 1) * site.width)
                site.out.weight[:, span] = 0
                for name in ("query", "key"):
                    getattr(site.core, name).weight[span] = 0
                    getattr(site.core, name).bias[span] = 0
