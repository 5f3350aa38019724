"""The loss of an example is the model's loss for it alone, whatever its batch and padding."""

import pytest
import torch
from ranker_cases import KINDS
from transformers import BertConfig, BertForMaskedLM, BertLMHeadModel, XLNetConfig, XLNetLMHeadModel

from deadhead.rankers.loss import example_losses, losses_of, output_kind


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_equals_the_models_own_loss_of_each_example_alone(case, kind):
    setup = case(kind)
    losses = example_losses(setup.model, setup.batch)
    alone = torch.stack([setup.model(**single).loss for single in setup.singles()]).to(losses)
    torch.testing.assert_close(
        losses, alone, rtol=0, atol=1e-6
    )  # transformers computes the loss of language models in float32
    assert (
        losses - setup.model(**setup.batch).loss
    ).abs().max() > 1e-2  # the twin: the loss of the batch is another thing


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_changes_nothing(case, kind):
    setup = case(kind)
    together = example_losses(setup.model, setup.batch)
    alone = torch.cat([example_losses(setup.model, single) for single in setup.singles()])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_language_models_that_do_not_shift():
    labels = {"labels": torch.zeros(2, 5, dtype=torch.long)}
    small = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "vocab_size": 9,
    }
    assert output_kind(BertForMaskedLM(BertConfig(**small)), labels) == "tag"
    assert output_kind(BertLMHeadModel(BertConfig(**small, is_decoder=True)), labels) == "causal"
    assert (
        output_kind(
            XLNetLMHeadModel(XLNetConfig(d_model=8, n_layer=1, n_head=2, d_inner=8, vocab_size=9)),
            labels,
        )
        == "tag"
    )


def test_example_without_a_label_has_no_loss():
    logits, labels = torch.randn(2, 3, 4), torch.tensor([[-100, -100, -100], [1, -100, 2]])
    losses = losses_of(logits, labels)
    assert losses[0] == 0
    expected = -logits[1].log_softmax(-1)[[0, 2], [1, 2]].mean()
    torch.testing.assert_close(losses[1], expected)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_logits_in_half_precision_are_computed_in_float32_a_few_rows_at_a_time(
    monkeypatch, shifted, rows
):
    from deadhead.rankers import loss

    monkeypatch.setattr(loss, "NUMBERS_AT_ONCE", rows * 11)
    draw = torch.Generator().manual_seed(0)
    half = torch.randn(3, 7, 11, generator=draw).half().requires_grad_()
    precise = half.detach().float().requires_grad_()
    labels = torch.randint(0, 11, (3, 7), generator=draw)
    labels[0, 2:], labels[2] = -100, -100
    weights = torch.tensor([1.0, -2.0, 3.0])
    losses = losses_of(half, labels, shifted=shifted)
    expected = losses_of(precise, labels, shifted=shifted)
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    (losses * weights).sum().backward()
    (expected * weights).sum().backward()
    assert half.grad.dtype == torch.float16
    assert bool(half.grad.any())
    torch.testing.assert_close(half.grad, precise.grad.half(), rtol=1e-3, atol=1e-6)
