"""A decoder's ranking does not depend on where the padding is: left, right or nowhere."""

import copy
from functools import cache
from typing import Any

import pytest
import torch

from architectures.tiny import tiny
from deadhead import rank
from deadhead.rankers.loss import IGNORED, example_losses, forward, losses_of

SENTENCES = [[5, 9, 7, 11, 6, 8], [12, 4, 10], [7, 13, 6, 9]]
METHODS: dict[str, dict[str, Any]] = {
    "taylor": {},
    "ablation": {},
    "l0": {"steps": 5},
    "shapley": {"permutations": 2, "measure": "loss"},
    "entropy": {},
}
FAMILIES = ("gpt2", "llama", "bloom")


@cache
def build(family):
    return tiny(family).double()


def padded(side, rows=SENTENCES):
    """The sentences in one batch, as a tokenizer with this padding side writes them."""
    wide = max(map(len, rows))
    batch: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in rows:
        room = wide - len(row)
        for name, real, filler in (
            ("input_ids", row, 1),
            ("attention_mask", [1] * len(row), 0),
            ("labels", row, IGNORED),
        ):
            batch[name].append([filler] * room + real if side == "left" else real + [filler] * room)
    return {name: torch.tensor(value) for name, value in batch.items()}


def alone():
    return [padded("right", [row]) for row in SENTENCES]


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_those_without_padding(family):
    model = build(family)
    with torch.no_grad():
        expected = torch.cat([example_losses(model, batch) for batch in alone()])
        for side in ("right", "left"):
            torch.testing.assert_close(
                example_losses(model, padded(side)), expected, rtol=0, atol=1e-9
            )
        batch = padded("left")  # the twin: taken as it comes, it gives other losses
        losses = losses_of(forward(model, batch).logits, batch["labels"], shifted=True)
        assert not torch.allclose(losses, expected, atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_ranks_the_same(family, method):
    model = build(family)
    left, right, none = (
        rank(copy.deepcopy(model), batches, method, **METHODS[method]).scores
        for batches in ([padded("left")], [padded("right")], alone())
    )
    assert left == pytest.approx(right, rel=1e-7, abs=1e-10)
    if method != "l0":  # which trains its gates batch by batch
        assert left == pytest.approx(none, rel=1e-7, abs=1e-10)
    assert len({round(score, 9) for score in left.values()}) > 1  # the twin: heads do differ


@pytest.mark.parametrize("method", ["gradient", "lrp"])
def test_encoders_too(method):
    """BERT counts positions from the left, padding or not."""
    model = build("bert")
    left, right = (rank(model, [padded(side)], method).scores for side in ("left", "right"))
    assert left == pytest.approx(right, rel=1e-7, abs=1e-10)


def test_an_encoder_decoder_keeps_its_labels_in_place():
    model = build("marian")
    labels = torch.tensor([[5, 6, IGNORED], [7, 8, 9], [4, IGNORED, IGNORED]])
    left, right = (
        rank(model, [{**padded(side), "labels": labels}], "gradient").scores
        for side in ("left", "right")
    )
    assert left == pytest.approx(right, rel=1e-7, abs=1e-10)
