"""SIZES: how large a Transformer is, by the names that `model` takes in a recipe. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadhead.errors import unknown_name


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
