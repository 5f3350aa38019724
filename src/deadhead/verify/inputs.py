"""Inputs for the tiny models of `tiny.py`: tokens, images, sound, by what their forward pass reads.

A signature says what a model reads, but not in which shape: an image may be a grid of pixels, a row
of patches or a frame of a video. `batches_for` gives every shape that the sizes of the config
allow, and the caller takes the first that the model runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from deadhead.forward import vocabulary_sizes

# Models of text and images that need both as inputs.
WITH_IMAGES = ("clip", "siglip", "siglip2", "chinese_clip", "align", "altclip", "groupvit")
EXAMPLES, TOKENS, GRID = 2, 12, 4  # an image is GRID x GRID patches where its model lets it
IMAGE_FORMS = (
    "image", "large image", "video", "patches", "square patches", "padded patches", "first matrix",
)  # fmt: skip
SOUND_FORMS = (
    "bins first", "bins last", "samples", "one channel", "one channel of bins", "first matrix",
    "usual bins", "long",
)  # fmt: skip
USUAL_BINS, LONG = 128, 200  # frames that windows of 50 or 100 divide
LARGE = 256  # the side of an image that is halved several times


def batch_for(model: Any) -> dict[str, Any]:
    """Inputs for the model's forward pass: two examples of tokens that it knows, one padded."""
    parameters = inspect.signature(model.forward).parameters
    config, main = model.config, getattr(model, "main_input_name", "input_ids")
    inputs = _Inputs(model)
    batch: dict[str, Any] = {}
    if "input_ids" in parameters and main in ("input_ids", "pixel_values"):
        batch["input_ids"] = inputs.tokens()
        if "attention_mask" in parameters:
            batch["attention_mask"] = inputs.mask()
    with_images = hasattr(config, "vision_config") and config.model_type in WITH_IMAGES
    if "pixel_values" in parameters and (main == "pixel_values" or with_images):
        batch["pixel_values"] = inputs.image("image")
    if main == "input_features" and "input_features" in parameters:
        batch["input_features"] = inputs.sound("bins first")
    if main == "input_values" and "input_values" in parameters:
        batch["input_values"] = inputs.sound("samples")
    if "decoder_input_ids" in parameters and getattr(config, "is_encoder_decoder", False):
        batch["decoder_input_ids"] = inputs.tokens(7)
    return batch


def batches_for(model: Any) -> Iterator[dict[str, Any]]:
    """Batches to try: the plain one, then with more inputs and in other shapes."""
    yield batch_for(model)
    parameters, needed = inspect.signature(model.forward).parameters, _needed(model)
    main = getattr(model, "main_input_name", None)
    least = needed | ({main} & parameters.keys() if isinstance(main, str) else set())
    text = {"input_ids", "attention_mask"} if "input_ids" in parameters else set()
    more = {"input_ids", "pixel_values", "input_features", "input_values", "bbox"}
    masks = MAKERS.keys() & parameters.keys() - INSTEAD
    if not text:
        masks -= {"attention_mask"}  # which is that of the text
    for wish in (needed | text, least, least | text, least | text | more, least | more | masks):
        names = (wish | {"decoder_input_ids"}) & parameters.keys()
        images = IMAGE_FORMS if names & IMAGES else IMAGE_FORMS[:1]
        sounds = SOUND_FORMS if names & SOUNDS else SOUND_FORMS[:1]
        if names <= MAKERS.keys():
            for form, sound in product(images, sounds):
                shape = Shape(form, sound)
                inputs = _Inputs(model)
                yield {name: MAKERS[name](inputs, shape) for name in sorted(names)}


def unknown_inputs(model: Any) -> list[str]:
    """What the forward pass cannot do without, and no batch can have."""
    return sorted(_needed(model) - MAKERS.keys())


def _needed(model: Any) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }


def prompts_for(model: Any, batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Inputs for generation to try: the text of a batch, then all of the batch."""
    own = {name: value for name, value in batch.items() if not name.startswith("decoder_")}
    for names in (("input_ids", "input_features", "attention_mask"), tuple(own)):
        prompt = {name: own[name] for name in names if name in own}
        if "attention_mask" in prompt:
            prompt["attention_mask"] = torch.ones_like(prompt["attention_mask"])
        if getattr(model.config, "is_encoder_decoder", False):
            prompt["decoder_start_token_id"] = 2
        yield prompt


def prompt_for(model: Any) -> dict[str, Any] | None:
    """Inputs for generation; None if this model does not generate text."""
    return next(prompts_for(model, batch_for(model))) if can_generate(model) else None


def can_generate(model: Any) -> bool:
    return hasattr(model, "generate") and bool(getattr(model, "can_generate", lambda: False)())


@dataclass(frozen=True)
class Shape:
    """In which of the possible shapes images and sound are made."""

    image: str = IMAGE_FORMS[0]
    sound: str = SOUND_FORMS[0]


class _Inputs:
    """Random inputs with the sizes that the configs of a model name."""

    def __init__(self, model: Any):
        self.configs = list(_configs(model.config))
        self.generator = torch.Generator().manual_seed(1)
        self.end = min([90, *vocabulary_sizes(model)])
        linear = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
        self.first_matrix = next((module.in_features for module in linear), USUAL_BINS)

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
        special = torch.tensor([*self._special()], dtype=torch.long)
        free = [number for number in range(start, self.end) if number not in special.tolist()]
        return torch.where(torch.isin(tokens, special), free[0] if free else start, tokens)

    def _special(self) -> Iterator[int]:
        for config in self.configs:
            for name, value in vars(config).items():
                if name.endswith(("token_id", "token_index")) and isinstance(value, int):
                    yield value

    def mask(self) -> Tensor:
        mask = torch.ones(EXAMPLES, TOKENS, dtype=torch.long)
        mask[1, 9:] = 0
        return mask

    def image(self, form: str) -> Tensor:
        """Pixels: of images, of videos, or of patches in a row."""
        side = self._vision("image_size", "img_size", default=16)
        size = side if isinstance(side, list | tuple) else (side, side)
        channels = self.size("num_channels", "in_channels", "in_chans", default=3)
        patch = self.size("patch_size", "spatial_patch_size", default=8)
        if form in ("image", "large image"):
            size = (LARGE, LARGE) if form == "large image" else size
            return self.random(EXAMPLES, channels, *size)
        if form == "video":
            frames = self.size("num_frames", "frames_per_clip", default=2)
            return self.random(EXAMPLES, frames, channels, *size)
        if form == "square patches":
            return self.random(EXAMPLES * GRID**2, channels, patch, patch)
        if form == "padded patches":
            return self.random(EXAMPLES, GRID**2, channels * patch**2)
        if form == "first matrix":
            return self.random(EXAMPLES * GRID**2, self.first_matrix)
        time = self.size("temporal_patch_size", default=1)
        return self.random(EXAMPLES * GRID**2, channels * time * patch**2)

    def _vision(self, *names: str, default: Any) -> Any:
        """The first of these in a config; a config for images comes before others."""
        visual = [config for config in self.configs if "vision" in type(config).__name__.lower()]
        for name in names:
            for config in (*visual, *self.configs):
                value = getattr(config, name, None)
                if isinstance(value, int | list | tuple) and value:
                    return value
        return default

    def sound(self, form: str) -> Tensor:
        """Sound: its spectrum, or its samples."""
        bins = self.size(*BINS, default=16)
        bins = {"first matrix": self.first_matrix, "usual bins": USUAL_BINS}.get(form, bins)
        length = 2 * self.size("max_source_positions", default=12)
        if form != "bins first":
            length = LONG if form == "long" else self.size("max_length", default=128)
        if form == "samples":
            return self.random(EXAMPLES, 4000)
        if form == "one channel":
            return self.random(EXAMPLES, 1, 4000)
        if form == "one channel of bins":
            return self.random(EXAMPLES, 1, length, bins)
        first = form in ("bins first", "long")
        return self.random(EXAMPLES, *((bins, length) if first else (length, bins)))

    def frames(self, form: str) -> Tensor:
        """A mask without padding for the sound in this form."""
        axis = -1 if form in ("bins first", "long", "samples", "one channel") else -2
        return torch.ones(EXAMPLES, self.sound(form).shape[axis], dtype=torch.long)

    def embeddings(self, *names: str, length: int = TOKENS) -> Tensor:
        return self.random(
            EXAMPLES, length, self.size(*names, "hidden_size", "d_model", default=32)
        )

    def boxes(self) -> Tensor:
        corner = torch.randint(0, 40, (EXAMPLES, TOKENS, 2), generator=self.generator)
        return torch.cat((corner, corner + 9), -1)


BINS = (
    "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "mel_bins",
    "feature_projection_input_dim", "input_dim", "num_mels",
)  # fmt: skip
IMAGES = {"pixel_values", "pixel_values_videos", "hidden_states"}
SOUNDS = {"input_features", "input_values", "audio_mel"}
INSTEAD = {"inputs_embeds"}  # read in place of the tokens
_Maker = Callable[[_Inputs, Shape], Tensor]
MAKERS: dict[str, _Maker] = {
    "input_ids": lambda inputs, shape: inputs.tokens(),
    "attention_mask": lambda inputs, shape: inputs.mask(),
    "decoder_input_ids": lambda inputs, shape: inputs.tokens(7),
    "qformer_input_ids": lambda inputs, shape: inputs.tokens(),
    "task_inputs": lambda inputs, shape: inputs.tokens(inputs.size("task_seq_len", default=TOKENS)),
    "pixel_values": lambda inputs, shape: inputs.image(shape.image),
    "pixel_values_videos": lambda inputs, shape: inputs.image(shape.image),
    "prompt_pixel_values": lambda inputs, shape: inputs.image("image"),
    "prompt_masks": lambda inputs, shape: inputs.image("image"),
    "hidden_states": lambda inputs, shape: inputs.image(shape.image),
    "grid_thw": lambda inputs, shape: torch.tensor([[1, GRID, GRID]] * EXAMPLES),
    "merge_sizes": lambda inputs, shape: torch.tensor([2] * EXAMPLES),
    "spatial_shapes": lambda inputs, shape: torch.tensor([[GRID, GRID]] * EXAMPLES),
    "pixel_position_ids": lambda inputs, shape: torch.cartesian_prod(
        torch.arange(GRID), torch.arange(GRID)
    ).repeat(EXAMPLES, 1, 1),
    "target_sizes": lambda inputs, shape: torch.tensor([[GRID, GRID]] * EXAMPLES),
    "pixel_attention_mask": lambda inputs, shape: torch.ones(EXAMPLES, GRID**2, dtype=torch.long),
    "input_features": lambda inputs, shape: inputs.sound(shape.sound),
    "input_values": lambda inputs, shape: inputs.sound(shape.sound),
    "audio_mel": lambda inputs, shape: inputs.sound(shape.sound),
    "audio_mel_mask": lambda inputs, shape: inputs.frames(shape.sound) == 0,  # True is padding
    "input_features_mask": lambda inputs, shape: inputs.frames(shape.sound),
    "bbox": lambda inputs, shape: inputs.boxes(),
    "query_embeds": lambda inputs, shape: inputs.embeddings("hidden_size"),
    "encoder_hidden_states": lambda inputs, shape: inputs.embeddings("encoder_hidden_size"),
    "inputs_embeds": lambda inputs, shape: inputs.embeddings(),
    "noise_embeds": lambda inputs, shape: inputs.embeddings(),
    "context_hidden_states": lambda inputs, shape: inputs.embeddings(),
    "latents": lambda inputs, shape: inputs.embeddings().transpose(1, 2),
    "visual_feats": lambda inputs, shape: inputs.embeddings("visual_feat_dim"),
    "visual_pos": lambda inputs, shape: inputs.random(EXAMPLES, TOKENS, 4),
    "past_values": lambda inputs, shape: inputs.random(
        EXAMPLES, inputs.size("context_length", default=64)
    ),
}


def _configs(config: Any) -> Iterator[Any]:
    """A config and those inside of it, from the outside inwards."""
    queue = [config]
    while queue:
        outer = queue.pop(0)
        yield outer
        queue += [c for c in vars(outer).values() if hasattr(c, "to_diff_dict")]
