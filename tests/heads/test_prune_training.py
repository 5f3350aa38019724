"""A pruned model trains: the same losses as the masked one, with real parameters, layers without heads included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from deadhead.heads import discover, gated, prune
from tiny_models import batch_of, build, uneven

STILL: dict[str, dict[str, Any]] = {  # no dropout, so that both models see the same
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "t5": {"dropout_rate": 0.0},
    "llama": {},
    "deberta": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "marian": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
    "xlnet": {"dropout": 0.0},
    "olmo2": {},
}


def trained(model: nn.Module, steps: int = 4) -> list[float]:
    """The losses of a few steps; the first is that of the model as it came."""
    model.train()
    batch = batch_of(model)
    labels = batch.get("decoder_input_ids", batch["input_ids"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        scores = model(**batch)[0].flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, labels.flatten() % scores.shape[-1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("emptied", [False, True], ids=["uneven", "layer 0 emptied"])
@pytest.mark.parametrize("family", STILL)
def test_pruned_and_masked_learn_alike(family, emptied):
    masked, pruned = build(family, **STILL[family]), build(family, **STILL[family])
    layout = discover(masked)
    removed = (
        [h for b in layout.blocks for h in layout.of(b)[0].heads] if emptied else uneven(masked)
    )
    with gated(masked, closed=removed):
        expected = trained(masked)
    error = trained(prune(pruned, removed))
    assert error == pytest.approx(expected, rel=1e-6)
    assert trained(build(family, **STILL[family])) != pytest.approx(expected, rel=1e-3)
    assert error[-1] < error[0]


@pytest.mark.parametrize("family", STILL)
def test_what_is_left_are_parameters_that_get_gradients(family):
    model = build(family, **STILL[family])
    whole = {n for n, p in model.named_parameters() if p.requires_grad}
    layout = discover(model)
    prune(model, [*layout.attentions[0].heads, *layout.attentions[1].groups[0]])
    assert {n for n, p in model.named_parameters() if p.requires_grad} == whole
    assert all(type(p) is nn.Parameter and p.is_leaf for p in model.parameters())
    learning, place = build(family, **STILL[family]), layout.attentions[1].path
    for each in (model, learning):
        trained(each, steps=1)
    expected, error = (
        {
            n
            for n, p in m.named_parameters()
            if n.startswith(place) and p.grad is not None and p.grad.any()
        }
        for m in (learning, model)
    )
    assert error == expected
    assert len(error) >= 4


def test_frozen_weights_stay_frozen():
    model = build("bert")
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "layer.1" in name
    prune(model, ["encoder.0.1", "encoder.1.1"])
    frozen = {n: p.requires_grad for n, p in model.named_parameters() if "attention" in n}
    assert frozen == {n: "layer.1" in n for n in frozen}
    assert set(frozen.values()) == {True, False}


def test_checkpointed_training_of_a_pruned_model():
    """The layer without heads is run again in the backward pass, too."""
    losses = []
    for checkpointed in (False, True):
        model = prune(build("bert", **STILL["bert"]), {0: [0, 1, 2, 3], 1: [2]})
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        losses.append(trained(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
