"""What the running call of a model was given, for the hooks inside of it that need to know."""

import inspect
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import is_encoder_decoder
from deadhead.layout import Batch

from .hooks import is_replica
from .layers import is_repeated
from .rows import cached_tokens, is_of_decoder, real_rows
from .site import Site

ENCODER = ("input_ids", "inputs_embeds", "input_features", "input_values", "pixel_values")
DECODER = ("decoder_input_ids", "decoder_inputs_embeds")
WHOLE = {
    "positions": "generate without a cache: model.generate(..., use_cache=False)",
    "fill": "a captured run serves one forward pass: generate with max_new_tokens=1",
}


@dataclass(kw_only=True)
class ModelCall:
    """A call of the model."""

    number: int = 0
    running: bool = False
    batch: Batch = field(default_factory=dict)
    cached: int = 0  # tokens before those of the batch
    kept: dict[Any, Tensor] = field(default_factory=dict)  # what the layers of a block share


class Calls:
    """Follows the calls of a model while its hooks are on.

    whole: the argument that needs whole sequences (of WHOLE), so that a filled cache is refused.
    """

    def __init__(self, model: nn.Module, stack: ExitStack, whole: str = ""):
        self.model, self.whole = _inner(model), whole
        self.run = ModelCall()
        self._follow(self.model, stack)
        if is_encoder_decoder(self.model) and hasattr(self.model, "get_encoder"):
            encoder = self.model.get_encoder()  # generation calls it by itself
            if isinstance(encoder, nn.Module) and encoder is not self.model:
                self._follow(encoder, stack)

    def _follow(self, entry: Any, stack: ExitStack) -> None:
        names, begun = [*inspect.signature(entry.forward).parameters], [0]

        def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if is_replica(module):
                raise UnsupportedModel(
                    "fills, positions and captured runs expect whole batches, got a part of one: "
                    "nn.DataParallel divides a run.",
                    "run the model on one device",
                )
            if module is entry and not (entry is not self.model and self.run.running):
                self._begin({**dict(zip(names, args, strict=False)), **kwargs})
                begun[0] = self.run.number

        def end(module: nn.Module, args: Any, output: Any) -> None:
            if module is entry and begun[0] == self.run.number:
                self.run.running = False

        stack.callback(entry.register_forward_pre_hook(begin, with_kwargs=True).remove)
        stack.callback(entry.register_forward_hook(end, always_call=True).remove)

    def _begin(self, batch: Batch) -> None:
        cached = cached_tokens(batch)
        if cached and self.whole:
            raise DataError(
                f"`{self.whole}` expects whole sequences, got a step of generation after "
                f"{cached} cached tokens.",
                WHOLE[self.whole],
            )
        self.run = ModelCall(number=self.run.number + 1, running=True, batch=batch, cached=cached)

    @property
    def checkpointed(self) -> bool:
        """Whether layers run again during the backward pass, after the call of the model."""
        return is_repeated() or getattr(self.model, "is_gradient_checkpointing", False) is True

    def now(self) -> ModelCall:
        """The running call; an error where a part of the model was called by itself."""
        run = self.run
        if not run.running and not (run.number and self.checkpointed):
            raise UnsupportedModel(
                "expected a call of the model, got a call of a part of it.",
                f"call the model that you gated: the {type(self.model).__name__} itself",
            )
        return run

    def real(self, site: Site, rows: Tensor) -> Tensor | None:
        """Which rows of a layer are real tokens; None: all."""
        run = self.now()
        return real_rows(self.model, run.batch, site, rows, cached=run.cached)

    def padding(self, site: Site) -> Tensor | None:
        """The mask of the caller for the tokens of a layer; None where there is none."""
        if site.block in ("vision", "audio"):
            return None
        decoder = is_of_decoder(self.model, site)
        mask = self.now().batch.get("decoder_attention_mask" if decoder else "attention_mask")
        return mask.bool() if isinstance(mask, Tensor) and mask.dim() == 2 else None

    def inputs(self, site: Site) -> Tensor | None:
        """What the part of the model with this layer reads: batch x tokens x ..."""
        return inputs_of(self.model, self.now().batch, site)

    def tokens(self, site: Site) -> int | None:
        """How many tokens a sequence of this layer has; None where it does not read text."""
        inputs, batch = self.inputs(site), self.now().batch
        if inputs is None or site.block in ("vision", "audio"):
            return None
        is_text = any(batch.get(name) is inputs for name in (*ENCODER[:2], *DECODER))
        return int(inputs.shape[1]) if is_text else None

    def has_copies(self, count: int) -> bool:
        """Whether the batch has each of its examples several times, as under beam search."""
        batch, cached = self.now().batch, self.now().cached
        hidden: Any = batch.get("encoder_outputs")
        if cached and not hidden:
            return False  # the newest tokens alone may be the same by chance
        inputs = [hidden[0] if hidden else None]
        inputs += [batch.get(name) for name in (*ENCODER, *DECODER, "attention_mask")]
        rows = [t for t in inputs if isinstance(t, Tensor) and t.dim() > 1 and len(t) == count]
        times = [number for number in range(2, count + 1) if count % number == 0]
        return bool(rows) and any(
            all(_is_repeated(tensor, number, axis) for tensor in rows)
            for number in times
            for axis in (0, 1)
        )

    def check_examples(self, site: Site, rows: Tensor) -> None:
        """Raise an error where the first axis of the rows of a layer is not the batch."""
        inputs = self.inputs(site)
        if rows.dim() < 3 or (inputs is not None and len(inputs) != len(rows)):
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} works on {tuple(rows.shape[:-1])} rows, so its "
                "examples cannot be separated.",
                'use fill="zero" or the means of the heads, at all positions',
            )


def _is_repeated(rows: Tensor, times: int, axis: int) -> bool:
    """Whether a tensor is that of fewer rows, as a whole (axis 0) or row by row (1) repeated."""
    groups = (times, -1) if axis == 0 else (-1, times)
    parts = rows.unflatten(0, groups)
    return bool((parts == parts.narrow(axis, 0, 1)).all())


def inputs_of(model: nn.Module, batch: Batch, site: Site) -> Tensor | None:
    """What the part of a model with this layer reads of a batch: batch x tokens x ..."""
    names = DECODER if is_of_decoder(model, site) else ENCODER
    tensors = (batch.get(name) for name in (*names, *ENCODER, *DECODER))
    return next((tensor for tensor in tensors if isinstance(tensor, Tensor)), None)


def _inner(model: Any) -> Any:
    """The model inside of what torch wraps around it."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while isinstance(model, parallel) or isinstance(getattr(model, "_orig_mod", None), nn.Module):
        model = model.module if isinstance(model, parallel) else model._orig_mod
    return model
