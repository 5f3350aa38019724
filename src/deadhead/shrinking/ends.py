"""The ends of layers: the last projection of each, and how its output reaches the next layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadhead.forward import forward
from deadhead.heads.parts import out_axis
from deadhead.heads.residual import Following
from deadhead.heads.site import Site
from deadhead.layout import Batch, LayerKey

from .streams import is_close

SMALLEST = 1e-3  # relative to the mean weight of a norm: smaller ones cannot be divided by


@dataclass(frozen=True)
class End:
    """The last projection of a layer, and the norm behind it if the layer normalises its output."""

    site: Site
    norm: nn.LayerNorm | None

    def target(self, stream: Tensor, total: Tensor) -> Tensor:
        """What this layer must sum up to give this stream, if it sums up to `total` now."""
        if self.norm is None:
            return stream
        weight = torch.ones_like(stream[0]) if self.norm.weight is None else self.norm.weight
        bias = 0 if self.norm.bias is None else self.norm.bias
        deviation, mean = torch.std_mean(total, -1, correction=0, keepdim=True)
        wish = (stream - bias) / weight * deviation + mean
        return torch.where(weight.abs() > SMALLEST * weight.abs().mean(), wish, total)

    def stream(self, total: Tensor) -> Tensor:
        """The residual stream behind the layer if it sums up to this."""
        if self.norm is None:
            return total
        return F.layer_norm(
            total, self.norm.normalized_shape, self.norm.weight, self.norm.bias, self.norm.eps
        )


class _Ends(Following):
    """Follows the output of the last projection of each layer into the residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.key: LayerKey | None = None  # the layer that runs now
        self.sites: dict[LayerKey, Site] = {}
        self.totals: dict[LayerKey, Tensor] = {}
        self.norms: dict[LayerKey, list[tuple[nn.LayerNorm, Tensor, Tensor]]] = {}

    def see(
        self, key: LayerKey, site: Site, out: Any, args: tuple[Tensor, ...], output: Tensor
    ) -> None:
        """The forward hook of a projection."""
        self.key, self.sites[key] = key, site
        self.totals.pop(key, None)
        weight = out.weight if out_axis(out) == 0 else out.weight.T
        if is_close(output, F.linear(args[0], weight, out.bias)):  # no adapter around it
            self.follow(output)

    def see_norm(
        self, key: LayerKey, norm: nn.LayerNorm, args: tuple[Tensor, ...], output: Tensor
    ) -> None:
        self.norms.setdefault(key, []).append((norm, args[0].clone(), output.clone()))

    def add(self, other: Tensor, total: Tensor) -> None:
        if self.key is not None:
            self.totals[self.key] = total.clone()


def _keep(
    outputs: dict[LayerKey, Any], key: LayerKey, layer: nn.Module, args: Any, output: Any
) -> None:
    outputs[key] = output


def owners_of(layers: Mapping[LayerKey, nn.Module]) -> dict[int, LayerKey]:
    """The layer of each module inside of these layers, by the id of the module."""
    return {id(module): key for key, layer in layers.items() for module in layer.modules()}


@torch.no_grad()
def ends_of(
    model: nn.Module, layers: Mapping[LayerKey, nn.Module], sites: Iterable[Site], batch: Batch
) -> tuple[dict[LayerKey, End], dict[LayerKey, bool]]:
    """The end of each layer that is understood; and whether each that runs gives a tensor alone.

    A layer is understood if its output is the sum of the residual stream and of its last
    projection, or a norm of this sum.
    """
    watch, owners = _Ends(), owners_of(layers)
    outputs: dict[LayerKey, Any] = {}
    with ExitStack() as hooks, watch:
        for site in sites:
            if site.out is not None and id(site.out) in owners:
                see = partial(watch.see, owners[id(site.out)], site)
                hooks.enter_context(site.out.register_forward_hook(see))
        for key, layer in layers.items():
            for module in layer.modules():
                if isinstance(module, nn.LayerNorm):
                    see = partial(watch.see_norm, key)
                    hooks.enter_context(module.register_forward_hook(see))
            hooks.enter_context(layer.register_forward_hook(partial(_keep, outputs, key)))
        forward(model, batch)
    ends: dict[LayerKey, End] = {}
    for key, total in watch.totals.items():
        stream, site = stream_of(outputs[key]), watch.sites[key]
        total = total.reshape(stream.shape) if total.numel() == stream.numel() else total
        if is_close(stream, total):
            ends[key] = End(site, None)
        for norm, given, normalised in watch.norms.get(key, ())[-1:]:
            if is_close(given, total) and is_close(stream, normalised):
                ends[key] = End(site, norm)
    return ends, {key: isinstance(output, Tensor) for key, output in outputs.items()}


def stream_of(output: Any) -> Tensor:
    """The residual stream that a layer gives."""
    return output if isinstance(output, Tensor) else output[0]
