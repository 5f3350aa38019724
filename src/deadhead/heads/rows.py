"""Which rows of what an output projection reads are tokens of an example, and which are padding."""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import pad

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import is_encoder_decoder, real_tokens
from deadhead.layout import Batch

from .site import Site


def batch_first(site: Site, context: Tensor) -> Tensor:
    """What the output projection reads with the batch in front (and back again)."""
    return context.transpose(0, 1) if site.time_first and context.dim() > 2 else context


def real_rows(
    model: nn.Module, batch: Batch, site: Site, rows: Tensor, *, cached: int = 0
) -> Tensor | None:
    """Which rows are real tokens, in the shape of all axes of `rows` but the last; None: all.

    rows: what the output projection of the layer reads, batch first.
    cached: tokens of a cache before those of the batch, which the mask has too.
    """
    real = _mask(model, batch, site)
    if real is None:
        return None
    real, shape = real.to(rows.device), rows.shape[:-1]
    if cached and len(shape) == 2 and real.shape[1] == cached + shape[1]:
        real = real[:, cached:]
    if len(shape) == 2 and (more := inner_padding(model, real, rows)):
        real = pad(real, (0, more))
    if shape == real.shape:
        return real
    if bool(real.all()) or (len(shape) == 1 and shape[0] == int(real.sum())):
        return None  # nothing is padding, or the model has removed the padding
    if len(shape) == 1 and shape[0] == real.numel():
        return real.flatten()
    raise UnsupportedModel(
        f"{site.block} layer {site.layer} works on {tuple(shape)} rows for a mask of "
        f"{tuple(real.shape)} tokens, so its padding is unknown.",
        "use batches without padding, for instance of one example each",
    )


def inner_padding(model: nn.Module, inputs: Tensor | None, rows: Tensor) -> int:
    """How many rows Longformer adds behind its inputs to fill its last window."""
    windows = getattr(getattr(model, "config", None), "attention_window", None)
    if not windows or inputs is None or inputs.dim() < 2 or len(inputs) != len(rows):
        return 0
    return max(0, rows.shape[1] - inputs.shape[1])


def is_of_decoder(model: nn.Module, site: Site) -> bool:
    """Whether a layer works on the tokens of the decoder of an encoder-decoder."""
    decodes = site.block in ("decoder", "cross") or "decoder" in site.path.split(".")
    return decodes and is_encoder_decoder(model)


def cached_tokens(batch: Batch) -> int:
    """How many tokens before those of the batch are in the cache that it comes with."""
    cache: Any = batch.get("past_key_values")
    memory = batch.get("mems")
    if hasattr(cache, "get_seq_length"):
        return int(cache.get_seq_length())
    if cache:  # a tuple for each layer, with the keys in front
        return int(cache[0][0].shape[-2])
    return len(memory[0]) if memory and memory[0] is not None else 0


def _mask(model: nn.Module, batch: Batch, site: Site) -> Tensor | None:
    """The mask of the tokens that a layer works on, as the batch has it."""
    if site.block in ("vision", "audio"):
        return None  # the mask of a batch is that of its text
    decoder = is_of_decoder(model, site)
    name = "decoder_attention_mask" if decoder else "attention_mask"
    mask = batch.get(name)
    if isinstance(mask, Tensor) and mask.dim() != 2:
        raise DataError(
            f"`{name}` expects batch x tokens, got {mask.dim()} axes, which do not say what is "
            "padding.",
            "pass the mask of the tokenizer",
        )
    return real_tokens(batch, decoder=decoder)
