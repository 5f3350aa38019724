"""Output biases that are dropped, absent, or filled with the mean output of removed units.

A layer may drop its output bias together with its last head, and some architectures have biases
in their attention where a given model has none: both stay zero and are never trained. Heads that
are removed with their mean output as a fill leave a constant behind, which is a bias like any
other.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from deadhead.errors import UnsupportedModel

from .hooks import is_same
from .load_pruned import AddBias
from .parts import bare, out_axis
from .site import Site

NO_BIAS = "projection_bias"  # config.json says false if the projections have no biases
DROPPED = "deadhead_dropped_bias"  # marks an output projection whose bias was dropped
FILLED = "deadhead_filled_bias"  # marks one whose bias holds the mean output of removed heads
ADDED = "deadhead_added_bias"  # marks one that the architecture gives no bias
XLNET_BIAS = "o_bias"  # beside XLNet's `o`, which is a bare parameter


def lacks_biases(model: Any) -> bool:
    """Whether the config says that the projections have no biases, though the class gives them."""
    return getattr(model.config, NO_BIAS, True) is False


def freeze_biases(sites: Iterable[Site]) -> None:
    """Keep the biases of the projections at zero, except those that hold a fill."""
    for site in sites:
        for role, part in site.parts.items() if site.kind == "heads" else ():
            bias = getattr(part.module, "bias", None)
            if isinstance(bias, nn.Parameter) and not (role == "o" and filled(site)):
                bias.requires_grad_(False)


@torch.no_grad()
def fill_bias(site: Site, kept: tuple[int, ...], means: torch.Tensor) -> None:
    """Add what the heads outside of `kept` contribute on average to the output bias.

    means: the mean output of each head that the layer still has, heads x width. Call it before
    the heads are cut. The sum is computed in float64, whatever the precision of the weights.
    """
    trains = _trains(site)
    add_bias(site)
    bias, weight = _bias(site), _weight(site)
    assert bias is not None  # as of the line above; for mypy
    left = set(kept)
    removed = [place for place, head in enumerate(site.kept) if head not in left]
    if site.out is not None:  # XLNet's has these axes already
        weight = weight.T if out_axis(site.out) == 1 else weight
        weight = weight.unflatten(-1, (len(site.kept), site.width))
    columns = weight[:, removed].to("cpu", torch.float64)
    constant = torch.einsum("ohw,hw->o", columns, means[removed].to(columns))
    total = (bias.to(constant) + constant).to(bias)
    _set_bias(site, nn.Parameter(total, requires_grad=trains))


def add_bias(site: Site) -> None:
    """Give the output projection a bias of zeros if it has none, and note that it is filled."""
    if _bias(site) is None:
        weight = _weight(site)
        outputs = weight.shape[0 if site.out is None else out_axis(site.out)]
        zeros = torch.zeros(outputs, dtype=weight.dtype, device=weight.device)
        _set_bias(site, nn.Parameter(zeros, requires_grad=weight.requires_grad))
        setattr(owner(site), ADDED, True)
        for use in site.uses:
            if use.out is None:
                dropout: Any = use.core.dropout
                dropout.register_forward_pre_hook(AddBias(use.core))
    setattr(owner(site), FILLED, True)


def _set_bias(site: Site, bias: nn.Parameter) -> None:
    for use in site.uses:
        setattr(owner(use), bias_name(use), bias)


@torch.no_grad()
def set_output(site: Site, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Give an output projection other weights, outputs x inputs, and another bias.

    A projection without a bias gets one, unless `bias` is None.
    """
    old = _weight(site)
    old.copy_(weight.T if site.out is not None and out_axis(site.out) == 1 else weight)
    if bias is not None:
        trains = _trains(site)
        add_bias(site)
        _set_bias(site, nn.Parameter(bias.to(old), requires_grad=trains))


def filled(site: Site) -> bool:
    return getattr(owner(site), FILLED, False) is True


def added(site: Site) -> bool:
    return getattr(owner(site), ADDED, False) is True


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
    return getattr(owner(site), DROPPED, False) is True


def refuse_bias_outside(sites: Iterable[Site]) -> None:
    """Raise an error for a bias outside of its projection, which no gate can reach."""
    for site in sites:
        outside = [getattr(site.core, name, None) for name in ("dense_bias", XLNET_BIAS)]
        if any(isinstance(bias, torch.Tensor) for bias in outside):
            raise UnsupportedModel(
                "drop_output_bias expects the output bias in the output projection, got "
                f"{site.path}, which adds it outside of the projection.",
                "leave drop_output_bias out: the layer then keeps its output bias",
            )


def hide_bias(site: Site, gates: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Subtract the output bias wherever every gate of the layer is 0; returns the undo function."""
    out, bias, batch_axis = site.out, _bias(site), 1 if site.time_first else 0
    if bias is None or out is None:
        return lambda: None

    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        if not is_same(module, out):
            return output
        closed = (gates() == 0).all(-1).to(output)  # one number, or one for each example
        if closed.dim():
            shape = [1] * output.dim()
            shape[batch_axis] = len(closed)
            closed = closed.view(shape)
        return output - bias * closed

    return out.register_forward_hook(hook).remove


def owner(site: Site) -> Any:
    """The module that has the weights of the output projection; XLNet's are in the layer itself."""
    return site.core if site.out is None else bare(site.out)


def bias_name(site: Site) -> str:
    """The name of the output bias in the module that owns it."""
    return XLNET_BIAS if site.out is None else "bias"


def _bias(site: Site) -> torch.Tensor | None:
    bias = getattr(owner(site), bias_name(site), None)
    return bias if isinstance(bias, torch.Tensor) else None


def _trains(site: Site) -> bool:
    """Whether the output bias trains once it is filled: one that is absent was never trained."""
    bias, weight = _bias(site), _weight(site)
    absent = bias is None or is_zero(site)
    return (absent and weight.requires_grad) or (bias is not None and bias.requires_grad)


def _weight(site: Site) -> torch.Tensor:
    return getattr(owner(site), "o" if site.out is None else "weight")
