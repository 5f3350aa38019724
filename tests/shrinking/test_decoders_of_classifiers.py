"""The decoder of a classifier reads the text of the encoder: its padding counts for nothing."""

import copy

import pytest
import torch
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    T5Config,
    T5ForSequenceClassification,
)

from deadhead import refit

SIZES = {"vocab_size": 30, "d_model": 16, "pad_token_id": 1, "eos_token_id": 2, "num_labels": 3}


def bart():
    layers = {"encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 32}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    return BartForSequenceClassification(
        BartConfig(**SIZES, **layers, **heads, encoder_ffn_dim=16, decoder_ffn_dim=16)
    )


def t5():
    config = T5Config(**SIZES, d_kv=4, d_ff=16, num_layers=1, num_heads=4, decoder_start_token_id=1)
    return T5ForSequenceClassification(config)


def texts(lengths):
    draw = torch.Generator().manual_seed(4)
    ids = torch.ones(len(lengths), max(lengths), dtype=torch.long)
    for row, length in zip(ids, lengths, strict=True):
        row[: length - 1] = torch.randint(3, 30, (length - 1,), generator=draw)
        row[length - 1] = 2
    return {
        "input_ids": ids,
        "attention_mask": (ids != 1).long(),
        "labels": torch.randint(0, 3, (len(lengths),), generator=draw),
    }


@pytest.mark.parametrize("build", [bart, t5])
def test_a_refit_does_not_depend_on_how_examples_are_batched(build):
    torch.manual_seed(0)
    model = build().double().eval()
    lengths = [5, 12, 7, 3, 9, 12, 4, 6] * 4
    together = texts(lengths)
    alone = [
        {"labels": together["labels"][i : i + 1]}
        | {n: together[n][i : i + 1, :length] for n in ("input_ids", "attention_mask")}
        for i, length in enumerate(lengths)
    ]
    results = []
    for batches in ([together], alone):
        small = copy.deepcopy(model)
        report = refit(small, batches, ["decoder.0.0"], progress=False)
        with torch.no_grad():
            results.append((report.tokens, small(**together).logits))
    (tokens, logits), (tokens_alone, logits_alone) = results
    assert tokens == tokens_alone
    assert torch.allclose(logits, logits_alone, atol=1e-8)
    with torch.no_grad():
        assert not torch.allclose(logits, model(**together).logits, atol=1e-6)
