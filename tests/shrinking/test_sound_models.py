"""Whisper reads sounds and writes text: what its decoder needs, and how long its text can be."""

import pytest
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from deadhead import discover, head_means, rank, shrink
from deadhead.errors import DataError, DeadheadError
from deadhead.shrinking import refit

POSITIONS = 40  # fewer than the tokens that `shrink` counts with by default
Batches = list[dict[str, torch.Tensor]]


@pytest.fixture
def whisper():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "num_mel_bins": 8, "vocab_size": 50, "max_source_positions": 50}
    sizes |= {f"{side}_layers": 1 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": 64 for side in ("encoder", "decoder")}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = WhisperConfig(**sizes, **tokens, max_target_positions=POSITIONS)
    return WhisperForConditionalGeneration(config).eval()


def batches(**texts):
    """Sounds, with texts of these names and lengths."""
    torch.manual_seed(1)
    written = {name: torch.randint(3, 50, (8, length)) for name, length in texts.items()}
    return [{"input_features": torch.randn(8, 8, 100), **written} for _ in range(4)]


@pytest.mark.parametrize("name", ["labels", "decoder_input_ids"])
def test_it_shrinks_with_no_word_about_lengths(whisper, name):
    loss = None if name == "labels" else "self"
    report = shrink(whisper, batches(**{name: 6}), heads=2, loss=loss, progress=False)
    assert report.shape == (32, POSITIONS)
    assert len(discover(whisper)) == 10


def test_more_tokens_than_its_decoder_has_positions_for(whisper):
    with pytest.raises(DeadheadError, match="at most the 40 positions of this model, got 50"):
        shrink(whisper, batches(labels=6), heads=2, on=(2, 50), progress=False)
    for name, loss in (("labels", None), ("decoder_input_ids", "self")):
        words = f"batch 0 has {name} of 41 tokens, but the decoder has 40 positions"
        with pytest.raises(DataError, match=words):
            rank(whisper, batches(**{name: POSITIONS + 1}), loss=loss, progress=False)


def test_a_decoder_without_a_text(whisper):
    """transformers says that there are two."""
    words = "the decoder of WhisperForConditionalGeneration needs a text of its own.*input_features"
    with pytest.raises(DataError, match=words):
        rank(whisper, batches(), loss="self", progress=False)
    with pytest.raises(DataError, match=words):
        head_means(whisper, batches())
    with pytest.raises(DataError, match=words):
        refit(whisper, batches(), ["decoder.0.1"], progress=False)
    with pytest.raises(DataError, match=words):
        shrink(whisper, batches(), heads=2, loss="self", progress=False)
