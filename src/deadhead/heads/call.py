"""What the running call of a model was given, for the hooks inside of it that need to know."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import is_encoder_decoder

from .hooks import is_replica, is_same
from .rows import cached_tokens, real_rows, token_numbers
from .sites import Site

ENCODER = ("input_ids", "inputs_embeds", "input_features", "input_values", "pixel_values")
DECODER = ("decoder_input_ids", "decoder_inputs_embeds")


@dataclass(kw_only=True)
class Run:
    """A call of the model."""

    number: int = 0
    running: bool = False
    batch: Mapping[str, Any] = field(default_factory=dict)
    cached: int = 0  # tokens before those of the batch
    kept: dict[Any, Tensor] = field(default_factory=dict)  # what the layers of a block share


class Calls:
    """Follows the calls of a model while its hooks are on.

    whole: the name of the argument that needs whole sequences, so that a filled cache is refused.
    """

    def __init__(self, model: nn.Module, stack: ExitStack, whole: str = ""):
        self.model, self.whole = _inner(model), whole
        self.names = [*inspect.signature(self.model.forward).parameters]
        self.run = Run()
        self.replicas: dict[int, Run] = {}  # of nn.DataParallel, by thread
        stack.callback(self.model.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
        stack.callback(self.model.register_forward_hook(self._end).remove)

    def __deepcopy__(self, memo: dict[int, Any]) -> Calls:
        return self  # a copied model has copied hooks, which do nothing there

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_same(module, self.model):
            return
        batch = {**dict(zip(self.names, args, strict=False)), **kwargs}
        cached = cached_tokens(batch)
        if cached and self.whole:
            raise DataError(
                f"`{self.whole}` expects whole sequences, got a step of generation after "
                f"{cached} cached tokens.",
                "generate without a cache: model.generate(..., use_cache=False)",
            )
        number = self.run.number + 1
        run = Run(number=number, running=True, batch=batch, cached=cached)
        if is_replica(module):
            self.replicas[threading.get_ident()] = run
        else:
            self.run = run

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_replica(module):
            self.replicas.pop(threading.get_ident(), None)
        elif is_same(module, self.model):
            self.run.running = False

    @property
    def checkpointed(self) -> bool:
        """Whether layers run again during the backward pass, after the call of the model."""
        return getattr(self.model, "is_gradient_checkpointing", False) is True

    def now(self) -> Run:
        """The running call; an error where a part of the model was called by itself."""
        run = self.replicas[threading.get_ident()] if self.replicas else self.run
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

    def numbers(self, site: Site, rows: Tensor) -> Tensor:
        """For each row of a layer its number among the real tokens of its example."""
        run = self.now()
        return token_numbers(self.model, run.batch, site, rows, cached=run.cached)

    def inputs(self, site: Site) -> Tensor | None:
        """What the part of the model with this layer reads: batch x tokens x ..."""
        batch, decodes = self.now().batch, site.block in ("decoder", "cross")
        names = DECODER if decodes and is_encoder_decoder(self.model) else ENCODER
        tensors = (batch.get(name) for name in (*names, *ENCODER, *DECODER))
        return next((tensor for tensor in tensors if isinstance(tensor, Tensor)), None)

    def check_examples(self, site: Site, rows: Tensor) -> None:
        """Raise an error where the first axis of the rows of a layer is not the batch."""
        inputs = self.inputs(site)
        if rows.dim() < 3 or (inputs is not None and len(inputs) != len(rows)):
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} works on {tuple(rows.shape[:-1])} rows, so its "
                "examples cannot be separated.",
                'use fill="zero" or the means of the heads, at all positions',
            )


def _inner(model: Any) -> Any:
    """The model inside of what torch wraps around it."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while isinstance(model, parallel) or isinstance(getattr(model, "_orig_mod", None), nn.Module):
        model = model.module if isinstance(model, parallel) else model._orig_mod
    return model
