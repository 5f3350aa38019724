"""Output biases that are zero and never trained: of a layer that dropped its bias with its last head, and of
architectures whose attention has biases where the model at hand has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from deadhead.errors import UnsupportedModel

from .discover import find_sites
from .sites import Site

NO_BIAS = "projection_bias"  # the key of config.json that says so, with false
DROPPED = "deadhead_dropped_bias"  # marks an output projection whose bias left with the last head


def hold_biases(model: Any) -> None:
    """Where the config says that projections have no bias, those of every attention, which are zero, are not trained."""
    if getattr(model.config, NO_BIAS, True) is not False:
        return
    for site in find_sites(model):
        for part in site.parts.values():
            bias = getattr(part.module, "bias", None)
            if isinstance(bias, torch.nn.Parameter):
                bias.requires_grad_(False)


def drop_bias(site: Site) -> None:
    """Set the output bias of an attention layer without heads to zero, for good: it is not trained either."""
    if (bias := _bias(site)) is not None:
        with torch.no_grad():
            bias.zero_()
        bias.requires_grad_(False)
    if site.out is not None:
        setattr(_inner(site.out), DROPPED, True)


def is_zero(site: Site) -> bool:
    bias = _bias(site)
    return bias is None or not bool(bias.any())


def dropped(site: Site) -> bool:
    return site.out is not None and getattr(_inner(site.out), DROPPED, False) is True


def refuse_bias_outside(sites: Iterable[Site]) -> None:
    """Some models add the output bias outside of the attention layer, where neither a gate nor a cut reaches it."""
    for site in sites:
        if isinstance(getattr(site.core, "dense_bias", None), torch.Tensor):
            raise UnsupportedModel(
                f"{site.path} adds its output bias outside of the attention layer, so drop_output_bias cannot remove it.",
                "leave drop_output_bias out: the layer then keeps its output bias",
            )


def mute(site: Site, gates: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Take the output bias away wherever every gate of the layer is 0; returns the undoing."""
    out, bias, axis = site.out, _bias(site), 1 if site.time_first else 0
    if bias is None or out is None:
        return lambda: None

    def change(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        if module is not out and not getattr(module, "_is_replica", False):
            return output  # a deep copy of the model, which is not gated
        empty = (gates() == 0).all(-1).to(output)  # one truth, or one for each example
        if empty.dim():
            shape = [1] * output.dim()
            shape[axis] = len(empty)
            empty = empty.view(shape)
        return output - bias * empty

    return out.register_forward_hook(change).remove


def _bias(site: Site) -> torch.Tensor | None:
    bias = getattr(site.out, "bias", None)
    return bias if isinstance(bias, torch.Tensor) else None


def _inner(module: nn.Module) -> nn.Module:
    """The projection itself, also where an adapter is wrapped around it."""
    inner = getattr(module, "base_layer", module)
    return inner if isinstance(inner, nn.Module) else module
