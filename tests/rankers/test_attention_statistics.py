"""Entropy and confidence against the model's own attention maps."""

import pytest
import torch
from ranker_cases import KINDS

from architectures.tiny import tiny
from deadhead.errors import UnsupportedModel
from deadhead.heads import discover
from deadhead.rankers import rank
from deadhead.verify.inputs import batch_for


def maps(model, batch):
    """Block -> attention maps of its layers, as transformers gives them."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    model.set_attn_implementation("sdpa")
    names = {
        "encoder": "encoder_attentions",
        "decoder": "decoder_attentions",
        "cross": "cross_attentions",
    }
    if model.config.is_encoder_decoder:
        return {block: outputs[name] for block, name in names.items()}
    return {discover(model).blocks[0]: outputs["attentions"]}


def queries(first, block):
    if first.model.config.is_encoder_decoder and block != "encoder":
        return first.batch["labels"] != -100
    return first.batch["attention_mask"].bool()


@pytest.mark.parametrize("kind", KINDS)
def test_entropy_is_the_token_mean_over_real_queries(case, kind):
    setup = case(kind)
    ranking = rank(setup.model, [setup.batch], "entropy")
    for block, layers in maps(setup.model, setup.batch).items():
        for layer, attention in enumerate(layers):
            entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1)  # 0 ln 0 = 0
            real = queries(setup, block)
            expected = entropy.transpose(1, 2)[real].mean(0)
            torch.testing.assert_close(
                torch.tensor(ranking.matrix(block, raw=True)[layer]), expected, rtol=0, atol=1e-6
            )
            everywhere = entropy.mean((0, 2))
            if block != "cross":
                assert (
                    everywhere - expected
                ).abs().max() > 1e-3  # the twin: padding would have shown
    assert ranking.scores == {head: -value for head, value in ranking.raw.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"average": "sentence"}, {"smoothing": 1e-4}], ids=str)
def test_padding_and_batches_change_nothing(case, kind, options):
    setup = case(kind)
    together, alone = (
        rank(setup.model, [setup.batch], "entropy", **options),
        rank(setup.model, setup.singles(), "entropy", **options),
    )
    assert max(abs(together.raw[h] - alone.raw[h]) for h in alone.raw) < 1e-6


def test_sentence_mean_weighs_sentences_alike(case):
    setup = case("classify")
    each = [rank(setup.model, [single], "entropy").raw for single in setup.singles()]
    mean = {head: sum(raw[head] for raw in each) / len(each) for head in each[0]}
    by_sentence = rank(setup.model, [setup.batch], "entropy", average="sentence").raw
    assert max(abs(mean[h] - by_sentence[h]) for h in mean) < 1e-6
    by_token = rank(setup.model, [setup.batch], "entropy").raw
    assert max(abs(by_token[h] - by_sentence[h]) for h in mean) > 1e-3


def test_smoothing_is_that_of_clark(case):
    setup = case("classify")
    single = setup.singles()[1]
    attention = maps(setup.model, single)["encoder"][0]
    mixed = 0.9 * attention + 0.1 / attention.shape[-1]
    expected = -(mixed * mixed.log()).sum(-1).mean((0, 2))
    result = rank(setup.model, [single], "entropy", smoothing=0.1).matrix(raw=True)[0]
    torch.testing.assert_close(torch.tensor(result), expected, rtol=0, atol=1e-6)


def test_confidence_is_the_mean_of_the_largest(case):
    setup = case("tag")
    result = rank(setup.model, [setup.batch], "confidence")
    for layer, attention in enumerate(maps(setup.model, setup.batch)["encoder"]):
        expected = attention.amax(-1).transpose(1, 2)[queries(setup, "encoder")].mean(0)
        torch.testing.assert_close(
            torch.tensor(result.matrix()[layer]), expected, rtol=0, atol=1e-6
        )


def test_a_closed_gate_does_not_show(case):
    """Probabilities are those before the gate, so closed heads do not change the first layer."""
    setup = case("classify")
    others = [head for head in discover(setup.model) if head.index]
    whole, closed = (
        rank(setup.model, [setup.batch], "entropy"),
        rank(setup.model, [setup.batch], "entropy", closed=others),
    )
    assert len(closed) == 2
    assert closed["encoder.0.0"] == pytest.approx(whole["encoder.0.0"], abs=1e-9)
    assert closed["encoder.1.0"] != pytest.approx(whole["encoder.1.0"], abs=1e-4)


def test_the_former_kernel_is_back_also_after_an_error(case):
    setup = case("classify")
    assert setup.model.config._attn_implementation == "sdpa"
    rank(setup.model, [setup.batch], "confidence")
    assert setup.model.config._attn_implementation == "sdpa"
    bad = {**setup.batch, "position_ids": torch.tensor([[10**6]])}
    with pytest.raises((IndexError, RuntimeError)):
        rank(setup.model, [setup.batch, bad], "confidence")
    assert setup.model.config._attn_implementation == "sdpa"


def test_a_model_that_shows_no_probabilities_is_refused():
    model = tiny("xlnet")
    batch = batch_for(model)
    with pytest.raises(UnsupportedModel, match="does not show its attention"):
        rank(model, [{**batch, "labels": batch["input_ids"]}], "entropy")
