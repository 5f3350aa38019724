"""Which rows of what an output projection reads are tokens of an example, and which are padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import is_encoder_decoder, real_tokens

from .sites import Site


def batch_first(site: Site, context: Tensor) -> Tensor:
    """What the output projection reads with the batch in front (and back again)."""
    return context.transpose(0, 1) if site.time_first and context.dim() > 2 else context


def real_rows(
    model: nn.Module, batch: Mapping[str, Any], site: Site, rows: Tensor
) -> Tensor | None:
    """Which rows are real tokens, in the shape of all axes of `rows` but the last; None: all.

    rows: what the output projection of the layer reads, batch first.
    """
    if site.block in ("vision", "audio"):
        return None  # the mask of a batch is that of its text
    decoder = site.block in ("decoder", "cross") and is_encoder_decoder(model)
    name = "decoder_attention_mask" if decoder else "attention_mask"
    mask = batch.get(name)
    if isinstance(mask, Tensor) and mask.dim() != 2:
        raise DataError(
            f"`{name}` expects batch x tokens, got {mask.dim()} axes, which do not say what is "
            "padding.",
            "pass the mask of the tokenizer",
        )
    real = real_tokens(batch, decoder=decoder)
    return None if real is None else _fitting(model, batch, real.to(rows.device), site, rows)


def _fitting(
    model: nn.Module, batch: Mapping[str, Any], real: Tensor, site: Site, rows: Tensor
) -> Tensor | None:
    """The mask in the shape of the rows of a layer, which may have another length."""
    shape = rows.shape[:-1]
    if shape == real.shape:
        return real
    if len(shape) == 2 and shape[0] == len(real):
        more = shape[1] - real.shape[1]
        if more < 0 and more == -cached_tokens(batch):
            return real[:, -more:]  # a step of generation, where the mask is also of the cache
        if more > 0 and getattr(getattr(model, "config", None), "attention_window", None):
            return pad(real, (0, more))  # Longformer fills its last window with padding
    if bool(real.all()) or (len(shape) == 1 and shape[0] == int(real.sum())):
        return None  # nothing is padding, or the model has removed the padding
    if len(shape) == 1 and shape[0] == real.numel():
        return real.flatten()
    raise UnsupportedModel(
        f"{site.block} layer {site.layer} works on {tuple(shape)} rows for a mask of "
        f"{tuple(real.shape)} tokens, so its padding is unknown.",
        "use batches without padding, for instance of one example each",
    )


def cached_tokens(batch: Mapping[str, Any]) -> int:
    """How many tokens before those of the batch are in the cache that it comes with."""
    cache: Any = batch.get("past_key_values")
    memory = batch.get("mems")
    if hasattr(cache, "get_seq_length"):
        return int(cache.get_seq_length())
    if cache:  # a tuple for each layer, with the keys in front
        return int(cache[0][0].shape[-2])
    return len(memory[0]) if memory and memory[0] is not None else 0


def position_of(real: Tensor | None, rows: Tensor) -> Tensor:
    """For each row its number among the real tokens of its example, counted from 0."""
    if real is None:
        return torch.arange(rows.shape[1], device=rows.device).expand(rows.shape[:2])
    return (real.long().cumsum(1) - 1).clamp(min=0)
