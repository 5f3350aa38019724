"""What may be given as gates, as people had it in transformers 4, and what is refused, before
anything runs.
"""

from typing import Any

import pytest
import torch

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.heads import gated
from deadhead.layout import Head
from tiny_models import answers, apart, build, refused


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_the_head_mask_of_transformers_4(dtype):
    model = build("bert")
    mask = torch.ones(2, 4, dtype=dtype)
    mask[0, 2] = mask[1, 1] = 0
    with gated(model, closed=["encoder.0.2", "encoder.1.1"]):
        expected = answers(model)
    with gated(model, mask):
        assert apart(expected, answers(model)) == 0
    assert apart(expected, answers(model)) > 0.1


HEAD = Head("encoder", 0, 1)
WRONG: list[tuple[Any, str]] = [
    (torch.ones(4, 2), "gates of encoder expect layers x heads = 2 x 4, got shape (4, 2)"),
    (torch.ones(1, 1, 2, 4), "shape (1, 1, 2, 4)"),
    ({"encoder.0.4": 0.5}, "expected one of the 4 heads of its layer"),
    ([[1, 1, 1, 1], [1, 1, 1, 1]], "got list"),
    ({"encoder": 0.5}, "or a number per Head, got 'encoder'"),
    ({HEAD: torch.tensor([0.0])}, "the gate of encoder.0.1 expects one number, got a tensor of"),
    ({HEAD: "0.5"}, "the gate of encoder.0.1 expects one number, got '0.5'"),
    (torch.ones(3, 2, 4), "expected gates for 2 examples, got 3"),
]


@pytest.mark.parametrize(("gates", "text"), WRONG, ids=[text for _, text in WRONG])
def test_gates_that_do_not_fit_are_refused(gates, text):
    model = build("bert")
    with refused(model, HeadError, text), gated(model, gates):
        answers(model)


def test_one_tensor_does_not_say_which_block_it_means():
    model = build("marian")
    text = "attention in encoder, decoder, cross"
    with refused(model, HeadError, text), gated(model, torch.ones(2, 4)):
        pass


@pytest.mark.parametrize("name", ["head_mask", "decoder_head_mask", "cross_attn_head_mask"])
def test_a_head_mask_given_to_a_gated_model_is_refused(name):
    """transformers 5 swallows the argument and ignores it: the answer would be silently wrong."""
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
