"""A pruned model trains: the same losses as the masked one, with real parameters."""

from typing import Any

import pytest
import torch
from torch import nn

from deadhead.heads import discover, gated, prune
from slow import slow_but
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


def still(family):
    return build(family, **STILL[family])


def trained(model, steps=4):
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
@pytest.mark.parametrize("family", slow_but("gpt2 t5 xlnet", STILL))
def test_pruned_and_masked_learn_alike(family, emptied):
    masked, pruned = still(family), still(family)
    layout = discover(masked)
    firsts = [h for block in layout.blocks for h in layout.of(block)[0].heads]
    removed = firsts if emptied else uneven(masked)
    with gated(masked, closed=removed):
        expected = trained(masked)
    losses = trained(prune(pruned, removed))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert trained(still(family)) != pytest.approx(expected, rel=1e-3)
    assert losses[-1] < losses[0]


def test_frozen_weights_stay_frozen():
    model = build("bert")
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "layer.1" in name
    prune(model, ["encoder.0.1", "encoder.1.1"])
    trains = {n: p.requires_grad for n, p in model.named_parameters() if "attention" in n}
    assert trains == {n: "layer.1" in n for n in trains}
    assert set(trains.values()) == {True, False}


def test_checkpointed_training_of_a_pruned_model():
    """The layer without heads is run again in the backward pass, too."""
    losses = []
    for checkpointed in (False, True):
        model = prune(still("bert"), {0: [0, 1, 2, 3], 1: [2]})
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        losses.append(trained(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
