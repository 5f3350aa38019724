"""Entropy against attention that is known by hand, before the gate, under the heads' own names."""

import math

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, MarianConfig, MarianMTModel

from deadhead import gated, prune
from deadhead.errors import UnknownName
from deadhead.measures import MeasureInputs, measure
from deadhead.measures.entropy import entropy
from deadhead.registry.options import OptionError

LENGTHS = (6, 3, 2)  # three sentences, padded to 6


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=16,
        num_labels=2,
        initializer_range=0.5,
    )
    return BertForSequenceClassification(config).eval()


def batch():
    mask = torch.stack([(torch.arange(6) < length).long() for length in LENGTHS])
    return {
        "input_ids": torch.randint(1, 30, (3, 6)) * mask,
        "attention_mask": mask,
        "labels": torch.tensor([0, 1, 0]),
    }


def test_evenly_spread_attention_has_the_logarithm_of_the_length():
    """Without queries every key is as good: ln 6, ln 3 and ln 2, weighted by 6, 3 and 2 queries."""
    model = bert()
    for layer in model.bert.encoder.layer:
        torch.nn.init.zeros_(layer.attention.self.query.weight)
        torch.nn.init.zeros_(layer.attention.self.query.bias)
    tokens = sum(n * math.log(n) for n in LENGTHS) / sum(LENGTHS)  # (6 ln 6 + 3 ln 3 + 2 ln 2) / 11
    sentences = sum(map(math.log, LENGTHS)) / 3
    result = entropy(model, [batch()])
    assert len(result) == 12
    assert list(result.values()) == pytest.approx([tokens] * 12, rel=1e-5)
    assert list(entropy(model, [batch()], average="sentence").values()) == pytest.approx(
        [sentences] * 12, rel=1e-5
    )


def test_a_head_keeps_its_entropy_when_its_gate_is_closed_and_its_name_when_others_are_cut():
    model, data = bert(), batch()
    whole = entropy(model, [data])
    with gated(model, closed=["encoder.2.1"]):
        assert entropy(model, [data])["encoder.2.1"] == pytest.approx(whole["encoder.2.1"])  # not 0
    prune(
        model, ["encoder.2.0", "encoder.2.1", "encoder.2.3"]
    )  # the last layer's, so that nothing below changes
    result = entropy(model, [data])
    assert result == pytest.approx(
        {head: value for head, value in whole.items() if head in result}, rel=1e-5
    )
    assert len(result) == 9
    assert "encoder.2.2" in result
    assert (
        abs(whole["encoder.2.2"] - whole["encoder.2.0"]) > 1e-3
    )  # the twin: another head would have been seen


def test_encoder_decoders():
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, pad_token_id=0,
        decoder_start_token_id=0, max_position_embeddings=16, forced_eos_token_id=0,
    )  # fmt: skip
    data = {**batch(), "labels": torch.randint(1, 30, (3, 5))}
    result = entropy(MarianMTModel(config).eval(), [data])
    assert {name.split(".")[0] for name in result} == {"encoder", "decoder", "cross"}
    assert len(result) == 4 * (2 + 1 + 1)
    causal = (
        sum(math.log(n) for n in range(1, 6)) / 5
    )  # the decoder sees 1 to 5 positions: at most this, evenly spread
    assert all(0 < result[f"decoder.0.{head}"] <= causal + 1e-6 for head in range(4))


def test_as_a_measure():
    requests = []

    def batches(split, most):
        requests.append((split, most))
        return [batch()]

    torch.manual_seed(1)
    model = bert()
    result = measure("entropy", sentences=7, split="test")(
        model, MeasureInputs(batches, lambda split, most: {})
    )
    assert requests == [("test", 7)]
    assert set(result) == {f"encoder.{layer}.{head}" for layer in range(3) for head in range(4)}


@pytest.mark.parametrize("wrong", [{"sentences": True}, {"smoothing": 1}])
def test_wrong_options(wrong):
    with pytest.raises(OptionError, match=r"of entropy expects a .*number from"):
        measure("entropy", **wrong)


def test_wrong_names():
    with pytest.raises(UnknownName, match="Did you mean 'entropy'"):
        measure("entrpy")
    with pytest.raises(UnknownName, match="Did you mean 'sentences'"):
        measure("entropy", sentence=3)
    with pytest.raises(OptionError, match="expects token or sentence, got 'word'"):
        measure("entropy", average="word")
