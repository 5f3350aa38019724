"""Output biases that are zero and never trained.

A layer may drop its output bias together with its last head, and some architectures have biases
in their attention where a given model has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from deadhead.errors import UnsupportedModel

from .discover import find_sites
from .parts import bare
from .sites import Site

NO_BIAS = "projection_bias"  # config.json says false if the projections have no biases
DROPPED = "deadhead_dropped_bias"  # marks an output projection whose bias was dropped


def freeze_absent_biases(model: Any) -> None:
    """If the config says that projections have no bias, keep those of the architecture at zero."""
    if getattr(model.config, NO_BIAS, True) is not False:
        return
    for site in find_sites(model):
        for part in site.parts.values():
            bias = getattr(part.module, "bias", None)
            if isinstance(bias, torch.nn.Parameter):
                bias.requires_grad_(False)


def drop_bias(site: Site) -> None:
    """Set the output bias of an attention layer without heads to zero, and never train it."""
    if (bias := _bias(site)) is not None:
        with torch.no_grad():
            bias.zero_()
        bias.requires_grad_(False)
    if site.out is not None:
        setattr(bare(site.out), DROPPED, True)


def is_zero(site: Site) -> bool:
    bias = _bias(site)
    return bias is None or not bool(bias.any())


def dropped(site: Site) -> bool:
    return site.out is not None and getattr(bare(site.out), DROPPED, False) is True


def refuse_bias_outside(sites: Iterable[Site]) -> None:
    """Raise an error for a bias outside of its layer, which neither a gate nor a cut can reach."""
    for site in sites:
        if isinstance(getattr(site.core, "dense_bias", None), torch.Tensor):
            raise UnsupportedModel(
                "drop_output_bias expects the output bias inside of the attention layer, got "
                f"{site.path}, which adds it outside of the attention layer.",
                "leave drop_output_bias out: the layer then keeps its output bias",
            )


def hide_bias(site: Site, gates: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Subtract the output bias wherever every gate of the layer is 0; returns the undo function."""
    out, bias, batch_axis = site.out, _bias(site), 1 if site.time_first else 0
    if bias is None or out is None:
        return lambda: None

    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        if module is not out and not getattr(module, "_is_replica", False):
            return output  # a deep copy of the model, which is not gated
        closed = (gates() == 0).all(-1).to(output)  # one number, or one for each example
        if closed.dim():
            shape = [1] * output.dim()
            shape[batch_axis] = len(closed)
            closed = closed.view(shape)
        return output - bias * closed

    return out.register_forward_hook(hook).remove


def _bias(site: Site) -> torch.Tensor | None:
    bias = getattr(site.out, "bias", None)
    return bias if isinstance(bias, torch.Tensor) else None
