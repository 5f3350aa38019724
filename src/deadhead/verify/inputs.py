"""Inputs for the proof on a user's model: random tokens, an image or sound, as it reads them."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from deadhead.forward import vocabulary_sizes
from deadhead.layout import Batch

# Models of text and images that need both as inputs.
WITH_IMAGES = ("clip", "siglip", "siglip2", "chinese_clip", "align", "altclip", "groupvit")
EXAMPLES, TOKENS = 2, 12
BINS = (
    "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "mel_bins",
    "feature_projection_input_dim", "input_dim", "num_mels",
)  # fmt: skip


def batch_for(model: Any) -> dict[str, Any]:
    """Inputs for the model's forward pass: two examples of tokens that it knows, one padded."""
    parameters = inspect.signature(model.forward).parameters
    config, main = model.config, getattr(model, "main_input_name", "input_ids")
    inputs = Inputs(model)
    batch: dict[str, Any] = {}
    if "input_ids" in parameters and main in ("input_ids", "pixel_values"):
        batch["input_ids"] = inputs.tokens()
        if "attention_mask" in parameters:
            batch["attention_mask"] = inputs.mask()
    with_images = hasattr(config, "vision_config") and config.model_type in WITH_IMAGES
    if "pixel_values" in parameters and (main == "pixel_values" or with_images):
        batch["pixel_values"] = inputs.pixels()
    if main == "input_features" and "input_features" in parameters:
        batch["input_features"] = inputs.spectrum()
    if main == "input_values" and "input_values" in parameters:
        batch["input_values"] = inputs.samples()
    if "decoder_input_ids" in parameters and getattr(config, "is_encoder_decoder", False):
        batch["decoder_input_ids"] = inputs.tokens(7)
    return batch


def prompt_for(model: Any, batch: Batch | None = None) -> dict[str, Any] | None:
    """Inputs for generation, those of a batch where it has them; None if the model has none."""
    if not can_generate(model):
        return None
    inputs = {name: (batch or {}).get(name, value) for name, value in batch_for(model).items()}
    return prompt_of(model, inputs, "input_ids", "input_features", "attention_mask")


def can_generate(model: Any) -> bool:
    return hasattr(model, "generate") and bool(getattr(model, "can_generate", lambda: False)())


def prompt_of(model: Any, batch: dict[str, Any], *names: str) -> dict[str, Any]:
    """These inputs of a batch as a prompt for generation, without padding."""
    prompt = {name: batch[name] for name in names if name in batch}
    if "attention_mask" in prompt:
        prompt["attention_mask"] = torch.ones_like(prompt["attention_mask"])
    if getattr(model.config, "is_encoder_decoder", False):
        prompt["decoder_start_token_id"] = 2
    return prompt


class Inputs:
    """Random inputs with the sizes that the configs of a model name."""

    def __init__(self, model: Any):
        self.configs = list(_configs(model.config))
        self.generator = torch.Generator().manual_seed(1)
        self.end = min([90, *vocabulary_sizes(model)])

    def size(self, *names: str, default: int) -> int:
        """The first of these sizes in any config."""
        for name in names:
            for config in self.configs:
                value = getattr(config, name, None)
                value = value[0] if isinstance(value, list | tuple) and value else value
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return default

    def random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def tokens(self, length: int = TOKENS) -> Tensor:
        """Tokens without a meaning of their own, such as that of an image."""
        start = min(3, self.end - 1)
        tokens = torch.randint(start, self.end, (EXAMPLES, length), generator=self.generator)
        special = [
            value
            for config in self.configs
            for name, value in vars(config).items()
            if name.endswith(("token_id", "token_index")) and isinstance(value, int)
        ]
        free = [number for number in range(start, self.end) if number not in special]
        is_special = torch.isin(tokens, torch.tensor(special, dtype=torch.long))
        return torch.where(is_special, free[0] if free else start, tokens)

    def mask(self) -> Tensor:
        mask = torch.ones(EXAMPLES, TOKENS, dtype=torch.long)
        mask[1, 9:] = 0
        return mask

    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width; a config for images comes before others."""
        visual = [config for config in self.configs if "vision" in type(config).__name__.lower()]
        sides = (
            getattr(config, name, None)
            for name in ("image_size", "img_size")
            for config in (*visual, *self.configs)
        )
        side = next((side for side in sides if isinstance(side, int | list | tuple) and side), 16)
        height, width = side if isinstance(side, list | tuple) else (side, side)
        return self.size("num_channels", "in_channels", "in_chans", default=3), height, width

    def pixels(self) -> Tensor:
        return self.random(EXAMPLES, *self.image_shape())

    def spectrum(self) -> Tensor:
        frames = 2 * self.size("max_source_positions", default=12)
        return self.random(EXAMPLES, self.size(*BINS, default=16), frames)

    def samples(self) -> Tensor:
        return self.random(EXAMPLES, 4000)


def _configs(config: Any) -> Iterator[Any]:
    """A config and those inside of it, from the outside inwards."""
    queue = [config]
    while queue:
        outer = queue.pop(0)
        yield outer
        queue += [c for c in vars(outer).values() if hasattr(c, "to_diff_dict")]
