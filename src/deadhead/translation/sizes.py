"""How large a Transformer is: one table, by the names that `model` takes in a recipe. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadhead.errors import unknown_name


@dataclass(frozen=True)
class Size:
    """Layers and heads are counted for the encoder, and are the same in the decoder."""

    layers: int
    heads: int  # of each attention; a decoder layer has two attentions
    width: int  # of the model
    inner: int  # of the feed-forward part
    dropout: float = 0.1  # after each part, in the attention, and after the ReLU


SIZES: Mapping[str, Size] = {
    "transformer-base": Size(
        6, 8, 512, 2048
    ),  # that of the papers; all have its 144 heads, so that its strings of heads fit them
    "transformer-small": Size(
        6, 8, 256, 1024, dropout=0.3
    ),  # for some ten thousand pairs, which the base would learn by heart
    "transformer-mini": Size(
        6, 8, 64, 128
    ),  # 144 heads as the base, and small enough for a minute on a CPU
}


def size_of(name: str | Size) -> Size:
    """The size of a name."""
    if isinstance(name, Size):
        return name
    if name not in SIZES:
        raise unknown_name("size of a Transformer", name, SIZES)
    return SIZES[name]
