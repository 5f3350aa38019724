"""The Transformer in several sizes, on the nearest architecture of transformers: M2M-100's.

It is what the weak-link paper describes (norms before each part and one at the end, ReLU,
tensor2tensor's sinusoids, one table of embeddings for both languages and the output), except for
the biases of its attention projections. These stay zero and are never trained. `config.json` says
so under `projection_bias`, so a model that is loaded again keeps it. SIZES needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadhead.errors import unknown_name

POSITIONS = 512  # sinusoids built at the start; a longer text gets more
# What plain `generate` does, for users without deadhead.
GENERATION = {"num_beams": 4, "length_penalty": 0.6, "early_stopping": False, "max_new_tokens": 306}


@dataclass(frozen=True)
class Size:
    """The encoder and the decoder have the same numbers of layers and heads."""

    layers: int  # in the encoder
    heads: int  # in each attention; a decoder layer has two attentions
    width: int  # the size of a hidden state
    inner: int  # the size of the feed-forward layer
    dropout: float = 0.1  # after each part, in the attention, and after the ReLU


SIZES: Mapping[str, Size] = {  # all have 144 heads, so a string of heads fits each of them
    "transformer-base": Size(6, 8, 512, 2048),  # the papers'
    "transformer-small": Size(6, 8, 256, 1024, dropout=0.3),  # for about ten thousand pairs
    "transformer-mini": Size(6, 8, 64, 128),  # trains on a CPU in a minute
}


def size_of(name: str | Size) -> Size:
    """Return the size of a name."""
    if isinstance(name, Size):
        return name
    if name not in SIZES:
        raise unknown_name("size of a Transformer", name, SIZES)
    return SIZES[name]


def build(size: str | Size, tokenizer: Any, seed: int = 0) -> Any:
    """Build a Transformer with new weights for this tokenizer; the seed alone decides them."""
    import torch
    from transformers import M2M100ForConditionalGeneration

    from deadhead.heads.discover import find_sites
    from deadhead.heads.output_bias import NO_BIAS, freeze_biases

    config = _config(size_of(size), tokenizer, **{NO_BIAS: False})
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        with torch.device("cpu"):
            model = M2M100ForConditionalGeneration(config)
            _initialise(model)
    freeze_biases(find_sites(model))
    for name, value in GENERATION.items():
        setattr(model.generation_config, name, value)
    return model.eval()


def _config(size: Size, tokenizer: Any, **more: Any) -> Any:
    from transformers import M2M100Config

    return M2M100Config(
        vocab_size=len(tokenizer),
        d_model=size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.inner,
        decoder_ffn_dim=size.inner,
        dropout=size.dropout,
        attention_dropout=size.dropout,
        activation_dropout=size.dropout,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        activation_function="relu",
        scale_embedding=True,
        tie_word_embeddings=True,
        max_position_embeddings=POSITIONS,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        **more,
    )


def _initialise(model: Any) -> None:
    """Set Glorot's uniform weights, and embeddings of length 1 before they are scaled."""
    from torch import nn

    for name, weight in model.named_parameters():
        if "layer_norm" in name:
            continue
        if name.endswith("bias"):
            nn.init.zeros_(weight)
        elif name == "model.shared.weight":
            nn.init.normal_(weight, std=model.config.d_model**-0.5)
            nn.init.zeros_(weight[model.config.pad_token_id].detach())
        else:
            nn.init.xavier_uniform_(weight)
