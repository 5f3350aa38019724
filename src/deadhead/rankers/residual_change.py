"""How much each attention layer turns the residual stream: one run over the data."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_sites
from deadhead.heads.residual import Following
from deadhead.heads.rows import batch_first, real_rows
from deadhead.heads.site import Site
from deadhead.layout import Batch, LayerKey

from .attention_maps import signal
from .loss import FiniteLoss, forward, on_device
from .ranker import RankerInputs


@torch.no_grad()
def changes(inputs: RankerInputs) -> dict[LayerKey, float]:
    """1 - cosine between the stream without and with the output of each layer, mean of tokens."""
    model, layers = inputs.model, dict.fromkeys(head[:2] for head in inputs.layout)
    sites = [site for site in find_sites(model) if site.layer_key in layers]
    watch, finite = _Watch(model), FiniteLoss()
    with ExitStack() as stack:
        for site in sites:
            for use in site.uses:
                stack.enter_context(_output(use).register_forward_hook(watch.hook(site)))
        for batch in inputs.counted():
            watch.batch = on_device(batch, model)
            with watch:
                outputs = forward(model, watch.batch)
            watch.end()
            finite.add(signal(model, watch.batch, outputs))
    finite.check()
    for site in sites:
        if not watch.tokens.get(site.layer_key):
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} ({type(site.core).__name__}) was not run, or its "
                "output is added to no residual stream.",
                "rank by taylor instead, or give inputs that use this part of the model",
            )
    return {layer: float(watch.sums[layer]) / watch.tokens[layer] for layer in layers}


def _output(site: Site) -> nn.Module:
    """The module that gives the output of the layer: for XLNet, a dropout, which is used twice."""
    module = site.core.dropout if site.out is None else site.out
    assert isinstance(module, nn.Module)  # for mypy
    return module


class _Watch(Following):
    """Follows the output of each layer into the residual stream, and adds up what it changes."""

    def __init__(self, model: nn.Module):
        super().__init__(through=True)
        self.model = model
        self.batch: Batch = {}
        self.sums: dict[LayerKey, Tensor | float] = {}
        self.tokens: dict[LayerKey, int] = {}
        self._site: Site | None = None
        self._without: Tensor | None = None  # the stream without the output of the layer
        self._with: Tensor | None = None

    def hook(self, site: Site) -> Callable[[nn.Module, Any, Tensor], None]:
        def begin(module: nn.Module, args: Any, output: Tensor) -> None:
            if site.out is not None or output.dim() == 3:  # else attention, of XLNet
                self.end()
                self._site = site
                self.follow(output)

        return begin

    def add(self, other: Tensor, total: Tensor) -> None:
        self._without = other if self._without is None else self._without + other
        self._with = total.clone()  # the model may change it in place

    def end(self) -> None:
        site, without, total = self._site, self._without, self._with
        self._site = self._without = self._with = None
        if site is None or without is None or total is None:
            return
        before, after = (batch_first(site, x).double() for x in (without, total))
        lengths = before.norm(dim=-1) * after.norm(dim=-1)
        change = 1 - (before * after).sum(-1) / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)
        real = real_rows(self.model, self.batch, site, before)
        change = change.flatten() if real is None else change[real.bool()]
        layer = site.layer_key
        self.sums[layer] = self.sums.get(layer, 0.0) + change.clamp(min=0).sum()
        self.tokens[layer] = self.tokens.get(layer, 0) + change.numel()
