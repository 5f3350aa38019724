"""Inputs for the tiny models of `tiny.py`: tokens, images, sound, by what their forward pass reads."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch

from deadhead.forward import vocabulary_sizes

# Models of text and images that need both as inputs.
WITH_IMAGES = ("clip", "siglip", "siglip2", "chinese_clip", "align", "altclip", "groupvit")


def batch_for(model: Any) -> dict[str, Any]:
    """Inputs for the model's forward pass: two examples of tokens that it knows, one padded."""
    generator = torch.Generator().manual_seed(1)
    parameters = inspect.signature(model.forward).parameters
    config, main = model.config, getattr(model, "main_input_name", "input_ids")
    batch: dict[str, Any] = {}
    end = min([90, *vocabulary_sizes(model)])
    tokens = partial(torch.randint, min(3, end - 1), end, generator=generator)
    if "input_ids" in parameters and main in ("input_ids", "pixel_values"):
        batch["input_ids"] = tokens((2, 12))
        if "attention_mask" in parameters:
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, 9:] = 0
            batch["attention_mask"] = mask
    with_images = hasattr(config, "vision_config") and config.model_type in WITH_IMAGES
    if "pixel_values" in parameters and (main == "pixel_values" or with_images):
        vision = getattr(config, "vision_config", config)
        side = getattr(vision, "image_size", 16)
        size = side if isinstance(side, list | tuple) else (side, side)
        channels = getattr(vision, "num_channels", 3)
        batch["pixel_values"] = torch.randn(2, channels, *size, generator=generator)
    if main == "input_features" and "input_features" in parameters:
        length = 2 * getattr(config, "max_source_positions", 12)
        batch["input_features"] = torch.randn(2, config.num_mel_bins, length, generator=generator)
    if main == "input_values" and "input_values" in parameters:
        batch["input_values"] = torch.randn(2, 4000, generator=generator)
    if "decoder_input_ids" in parameters and getattr(config, "is_encoder_decoder", False):
        batch["decoder_input_ids"] = tokens((2, 7))
    return batch


def prompt_for(model: Any) -> dict[str, Any] | None:
    """Inputs for generation; None if this model does not generate text."""
    if not hasattr(model, "generate") or not getattr(model, "can_generate", lambda: False)():
        return None
    names = ("input_ids", "input_features", "attention_mask")
    batch = {name: tensor for name, tensor in batch_for(model).items() if name in names}
    if "attention_mask" in batch:
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    if getattr(model.config, "is_encoder_decoder", False):
        batch["decoder_start_token_id"] = 2
    return batch
