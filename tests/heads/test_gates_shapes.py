"""What may be given as gates, as people had it in transformers 4, and what is refused, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from architectures.tiny import tiny
from deadhead.errors import HeadError, UnsupportedModel
from deadhead.heads import gated
from deadhead.layout import Head
from tiny_models import answers, apart, build, hooks


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.float16])
def test_the_head_mask_of_transformers_4(dtype):
    model = build("bert")
    mask = torch.ones(2, 4, dtype=dtype)
    mask[0, 2] = mask[1, 1] = 0
    with gated(model, closed=["encoder.0.2", "encoder.1.1"]):
        expected = answers(model)
    with gated(model, mask):
        assert apart(expected, answers(model)) == 0
    assert apart(expected, answers(model)) > 0.1


def test_one_mask_per_block_for_an_encoder_decoder():
    model = build("marian")
    masks = {b: torch.ones(2, 4) for b in ("encoder", "decoder", "cross")}
    masks["cross"][1, 3] = masks["decoder"][0, 0] = 0
    with gated(model, closed=["cross.1.3", "decoder.0.0"]):
        expected = answers(model)
    with gated(model, masks):
        assert apart(expected, answers(model)) == 0


WRONG: list[tuple[str, Any, str]] = [
    ("layers and heads swapped", torch.ones(4, 2), "shape (4, 2)"),
    ("a layer short", torch.ones(1, 4), "shape (1, 4)"),
    ("flat", torch.ones(8), "shape (8,)"),
    ("an axis too many", torch.ones(1, 1, 2, 4), "shape (1, 1, 2, 4)"),
    ("a block that is not there", {"decoder": torch.ones(2, 4)}, "'decoder'"),
    (
        "a head that is not there",
        {Head("encoder", 0, 4): 0.0},
        "expected one of the 4 heads of its layer, got 4",
    ),
    ("a list", [[1, 1, 1, 1], [1, 1, 1, 1]], "got list"),
    ("a number for a block", {"encoder": 0.5}, "'encoder'"),
    ("a name of no head", {"encoder.0.4": 0.5}, "expected one of the 4 heads of its layer"),
]


@pytest.mark.parametrize(("gates", "text"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_gates_of_a_wrong_shape_are_refused(gates, text):
    model = build("bert")
    hooks_before = hooks(model)
    with pytest.raises(HeadError) as error, gated(model, gates):
        pass
    assert text in error.value.message
    assert error.value.hint
    assert hooks(model) == hooks_before


@pytest.mark.parametrize(
    "heads",
    [
        ["encoder.2.0"],
        ["decoder.0.0"],
        ["encoder.0.0", "encoder.0.0"],
        ["encoder.0"],
        "encoder.0.0",
    ],
)
def test_closed_heads_that_do_not_fit_are_refused(heads):
    with pytest.raises(HeadError), gated(build("bert"), closed=heads):
        pass


def test_one_tensor_does_not_say_which_block_it_means():
    with (
        pytest.raises(HeadError, match="attention in encoder, decoder, cross"),
        gated(build("marian"), torch.ones(2, 4)),
    ):
        pass


def test_a_batch_of_gates_must_fit_the_batch():
    model = build("bert")
    hooks_before = hooks(model)
    with (
        pytest.raises(HeadError, match="expected gates for 2 examples, got 3"),
        gated(model, torch.ones(3, 2, 4)),
    ):
        answers(model)
    assert hooks(model) == hooks_before


@pytest.mark.parametrize("name", ["head_mask", "decoder_head_mask", "cross_attn_head_mask"])
def test_a_head_mask_given_to_a_gated_model_is_refused(name):
    """transformers 5 swallows the argument and ignores it; so the answer would be silently wrong."""
    model = build("bert" if name == "head_mask" else "marian")
    batch = {"input_ids": torch.ones(1, 3, dtype=torch.long)}
    with pytest.raises(UnsupportedModel, match=name), gated(model):
        model(**batch, **{name: torch.ones(2, 4)})
    with gated(model):
        model(
            **batch,
            **{name: None},
            **({} if name == "head_mask" else {"decoder_input_ids": batch["input_ids"]}),
        )


def test_numbers_of_heads_by_name_and_the_hint_names_a_block_of_the_model():
    model = build("gpt2")
    with gated(model, {Head("decoder", 0, 1): 0.5}):
        expected = answers(model)
    with gated(model, {"decoder.0.1": 0.5}):
        assert apart(expected, answers(model)) == 0
    assert apart(expected, answers(model)) > 0
    with pytest.raises(HeadError) as error, gated(model, {"encoder": 0.5}):
        pass
    assert '{"decoder.0.1": 0.5}' in str(error.value.hint)


@pytest.mark.parametrize("value", [torch.rand(4), torch.tensor([0.0]), "0.5", None])
def test_a_head_has_one_number(value):
    model = tiny("bert")
    with (
        pytest.raises(HeadError, match=r"the gate of encoder\.0\.1 expects one number"),
        gated(model, {Head("encoder", 0, 1): value}),
    ):
        pass
