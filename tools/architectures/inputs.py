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

from deadhead.verify.inputs import BINS, EXAMPLES, TOKENS, Inputs, batch_for, prompt_of

GRID = 4  # an image is GRID x GRID patches where its model lets it
IMAGE_FORMS = (
    "image", "large image", "video", "patches", "square patches", "padded patches", "first matrix",
)  # fmt: skip
SOUND_FORMS = (
    "bins first", "bins last", "samples", "one channel", "one channel of bins", "first matrix",
    "usual bins", "long",
)  # fmt: skip
USUAL_BINS, LONG = 128, 200  # frames that windows of 50 or 100 divide
LARGE = 256  # the side of an image that is halved several times


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
    yield prompt_of(model, own, "input_ids", "input_features", "attention_mask")
    yield prompt_of(model, own, *own)


@dataclass(frozen=True)
class Shape:
    """In which of the possible shapes images and sound are made."""

    image: str = IMAGE_FORMS[0]
    sound: str = SOUND_FORMS[0]


class _Inputs(Inputs):
    """Inputs in every shape that an image or sound may have."""

    def __init__(self, model: Any):
        super().__init__(model)
        linear = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
        self.first_matrix = next((module.in_features for module in linear), USUAL_BINS)

    def image(self, form: str) -> Tensor:
        """Pixels: of images, of videos, or of patches in a row."""
        channels, *size = self.image_shape()
        patch = self.size("patch_size", "spatial_patch_size", default=8)
        if form in ("image", "large image"):
            return self.random(EXAMPLES, channels, *((LARGE, LARGE) if form != "image" else size))
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

    def sound(self, form: str) -> Tensor:
        """Sound: its spectrum, or its samples."""
        if form == "bins first":
            return self.spectrum()
        if form == "samples":
            return self.samples()
        bins = self.size(*BINS, default=16)
        bins = {"first matrix": self.first_matrix, "usual bins": USUAL_BINS}.get(form, bins)
        length = LONG if form == "long" else self.size("max_length", default=128)
        if form == "one channel":
            return self.random(EXAMPLES, 1, 4000)
        if form == "one channel of bins":
            return self.random(EXAMPLES, 1, length, bins)
        return self.random(EXAMPLES, *((bins, length) if form == "long" else (length, bins)))

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
