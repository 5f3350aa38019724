"""Models that a benchmark trains together learn what each learns alone."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import DistilBertConfig, DistilBertForTokenClassification

from deadhead import encode, finetune, load_data, prune
from deadhead.errors import DeadheadError
from deadhead.tasks import draw_examples
from deadhead.tasks.encoding.feed import Feed
from deadhead.training import Settings
from deadhead.training.models import load_for_task, tokenizer_for
from deadhead.training.update import Updater
from deadhead.world import MODELS

BENCHMARKS = Path(__file__).parent
REMOVED: list[dict[str, Any]] = [
    {},
    {"heads": ["encoder.0.3", *(f"encoder.1.{head}" for head in range(8))]},  # all of a layer
    {"heads": ["encoder.4.0"], "neurons": {("encoder", 0): range(300), ("encoder", 2): [7]}},
]


@pytest.fixture(scope="module")
def together():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("together")


@pytest.fixture(scope="module", params=["pos", "xnli"])
def task(request):
    """A whole model without dropout, small models and data."""
    path = str(MODELS / "encoder")
    data = draw_examples(load_data(request.param, "en", "train", root="world"), 40)
    encoded = encode(data, tokenizer_for(path), max_length=48)
    whole = load_for_task(path, data.task, tuple(data.labels), seed=1)
    whole.config.hidden_dropout_prob = whole.config.attention_probs_dropout_prob = 0.0
    for module in whole.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    smaller = [copy.deepcopy(whole) for _ in REMOVED]
    for model, removed in zip(smaller, REMOVED, strict=True):
        prune(model, **removed)
    return whole, smaller, encoded


def test_gradients_are_those_of_each_model_and_zero_for_what_was_removed(together, task):
    whole, models, data = task
    settings = Settings(batch=40)
    numbers = torch.arange(16)
    stack = together.Stack(models, whole)
    feed = Feed(data, "cpu")
    shapes = [feed.shape(numbers.numpy())]
    loss = together._Updater(stack, feed, settings).backward(numbers, shapes)
    alone = []
    for number, model in enumerate(models):
        own = copy.deepcopy(model)
        alone.append(Updater(own, feed, settings).backward(numbers, shapes))
        axes = together.units_of(own)
        for name, p in own.named_parameters():
            gradient = stack.weight(name).grad[number]
            if name in axes:
                axis, kept = axes[name]
                left = [n for n in range(gradient.shape[axis]) if n not in kept.tolist()]
                assert gradient.index_select(axis, torch.tensor(left)).abs().max() == 0
                gradient = gradient.index_select(axis, kept)
            if p.numel():
                assert torch.allclose(gradient, p.grad, rtol=1e-4, atol=1e-6), name
    assert float(loss) == pytest.approx(float(torch.stack(alone).mean()), rel=1e-5)
    assert len({round(float(value), 4) for value in alone}) == len(models)  # they do differ


def test_trained_together_as_trained_alone(together, task):
    whole, models, data = task
    settings = Settings(batch=8, epochs=2, rate=2e-3, clip=0.5, seed=3)
    stacked, alone = copy.deepcopy(models), copy.deepcopy(models)
    together.train_together(stacked, whole, data, settings)
    for model in alone:
        finetune(model, data, settings, progress=False)
    for trio in zip(models, stacked, alone, strict=True):
        before, mine, expected = (
            torch.cat([p.detach().flatten() for p in m.parameters()]) for m in trio
        )
        assert (expected - before).norm() > 1
        # rounding decides the sign of a gradient near zero, and AdamW takes a full step there
        assert (mine - expected).norm() < 0.01 * (expected - before).norm()


def test_only_berts_are_trained_together(together):
    config = DistilBertConfig(vocab_size=9, dim=8, n_heads=2, n_layers=1, hidden_dim=8)
    model = DistilBertForTokenClassification(config)
    with pytest.raises(DeadheadError, match="only BERTs"):
        together.Stack([model], model)
