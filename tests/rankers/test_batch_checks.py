"""What is checked in batches before a model reads them, for `rank`, `shrink` and `refit`."""

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    ProphetNetConfig,
    ProphetNetForCausalLM,
    ProphetNetForConditionalGeneration,
)

from architectures.tiny import tiny
from deadhead import rank, refit
from deadhead.errors import DataError
from deadhead.forward import position_rows


@pytest.mark.parametrize("kind", ["classify", "tag"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_labels_of_every_type_of_whole_numbers(case, kind, dtype):
    setup = case(kind)
    small = {**setup.batch, "labels": setup.batch["labels"].to(dtype)}
    expected = rank(setup.model, [setup.batch], progress=False).scores
    assert rank(setup.model, [small], progress=False).scores == expected
    assert small["labels"].dtype == dtype  # the caller's batch is left alone


@pytest.mark.parametrize("method", ["confidence", "entropy", "similarity"])
def test_labels_that_are_no_classes_do_not_matter_where_none_are_read(case, method):
    setup = case("classify")
    numbers = {**setup.batch, "labels": torch.rand(len(setup.batch["labels"]), 3)}
    expected = rank(setup.model, [setup.batch], method, progress=False).scores
    assert rank(setup.model, [numbers], method, progress=False).scores == expected
    with pytest.raises(DataError) as error:
        rank(setup.model, [numbers], "taylor", progress=False)
    assert 'loss="self"' in str(error.value.hint)


REFUSED = {  # what is wrong with a batch, from the right one, and the words of the error
    "a list": (lambda b: {"input_ids": b["input_ids"].tolist()}, "of batch 1 is list, not a tens"),
    "an array": (lambda b: {"input_ids": b["input_ids"].numpy()}, "of batch 1 is ndarray, not a"),
    "no tokens": (
        lambda b: {name: b[name][:, :0] for name in ("input_ids", "attention_mask")},
        r"batch 1 is empty: its input_ids has shape \(4, 0",
    ),
    **{
        f"fewer {name}": (
            lambda b, name=name: {name: b[name][:3]},
            rf"batch 1 has input_ids of shape \(4, 12\), but {name} of shape \(3",
        )
        for name in ("labels", "attention_mask")
    },
    "a short mask": (
        lambda b: {"attention_mask": b["attention_mask"][:, :9]},
        r"but attention_mask of shape \(4, 9\)",
    ),
    "tokens below 0": (
        lambda b: {"input_ids": b["input_ids"] - 50},
        "batch 1 has token -50 and the model knows 99",
    ),
    "too long": (
        lambda b: {name: v.repeat(1, 11) for name, v in b.items() if v.dim() == 2},
        "batch 1 has 132 tokens, but the model has 128 positions",
    ),
    "several texts for each example": (
        lambda b: {"input_ids": b["input_ids"].unflatten(1, (2, 6))},
        r"input_ids of batch 1 expects examples x tokens, got shape \(4, 2, 6\)",
    ),
    "no inputs": (
        lambda b: {"input_ids": None},
        "batch 1 has no inputs; it has: attention_mask, labels",
    ),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_batches_that_are_refused(case, problem):
    """Whether labels are read or not, the error is the same."""
    setup, (change, words) = case("classify"), REFUSED[problem]
    changed = {**setup.batch, **change(setup.batch)}
    batches = [setup.batch, {name: v for name, v in changed.items() if v is not None}]
    with pytest.raises(DataError, match=words):
        rank(setup.model, batches, progress=False)
    with pytest.raises(DataError, match=words):
        refit(setup.model, batches, ["encoder.0.1"], progress=False)


PROPHETNET = ProphetNetConfig(
    vocab_size=40, hidden_size=16, encoder_ffn_dim=16, decoder_ffn_dim=16, num_encoder_layers=1,
    num_decoder_layers=1, num_encoder_attention_heads=4, num_decoder_attention_heads=4,
    max_position_embeddings=16, num_buckets=8, pad_token_id=1,
)  # fmt: skip
BART = BartConfig(
    vocab_size=40, d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, encoder_layers=1,
    decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
    max_position_embeddings=16,
)  # fmt: skip


def test_a_decoder_of_prophetnet_reads_one_position_ahead():
    model = ProphetNetForCausalLM(PROPHETNET).eval()
    assert position_rows(model) == 13
    fits, long = torch.full((2, 13), 7), torch.full((2, 14), 7)
    rank(model, [{"input_ids": fits, "labels": fits}], progress=False)
    with pytest.raises(IndexError):
        model(input_ids=long)
    with pytest.raises(DataError, match="14 tokens, but the model has 13 positions"):
        rank(model, [{"input_ids": long, "labels": long}], progress=False)


@pytest.mark.parametrize(
    ("build", "read", "written"),
    [
        (lambda: ProphetNetForConditionalGeneration(PROPHETNET), 14, 13),
        (lambda: BartForConditionalGeneration(BART), 16, 16),
    ],
)
def test_more_labels_than_positions_of_the_decoder(build, read, written):
    model = build().eval()
    assert (position_rows(model), position_rows(model, decoder=True)) == (read, written)
    batch = {"input_ids": torch.full((2, read), 7), "labels": torch.full((2, written), 7)}
    rank(model, [batch], progress=False)
    long = {**batch, "labels": torch.full((2, written + 1), 7)}
    with pytest.raises(IndexError):
        model(**long)
    words = f"labels of {written + 1} tokens, but the decoder has {written} positions"
    with pytest.raises(DataError, match=words):
        rank(model, [long], progress=False)


def test_a_model_of_sound_is_refitted_without_labels():
    model = tiny("wav2vec2")
    batches = [{"input_values": torch.randn(2, 4000)} for _ in range(12)]
    report = refit(model, batches, ["encoder.0.1"], progress=False)
    assert report.layers[0].error_refitted < report.layers[0].error_cut
