"""Read attention maps during the forward pass and reduce each to one number per head.

Fused kernels never form the attention probabilities, so the plain implementation replaces them
meanwhile. Each layer's map is reduced as soon as it exists, and dropped.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel
from deadhead.forward import configs_of
from deadhead.heads.discover import find_sites
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head

from .loss import (
    FiniteLoss,
    attended,
    examples_of,
    forward,
    losses_of,
    on_device,
    output_kind,
    output_of,
    positions_of,
    real_tokens,
)
from .ranker import RankerInputs

# examples x heads x queries x keys, and 1 for keys that count -> examples x heads x queries
Statistic = Callable[[Tensor, Tensor], Tensor]
MapReader = Callable[[Site, Tensor], None]  # a layer and its map, in float32 or float64


@torch.no_grad()
def statistics(
    inputs: RankerInputs, statistic: Statistic, *, by_sentence: bool = False
) -> dict[Head, float]:
    """The mean of a statistic over all queries that are not padding, for each head.

    by_sentence: over the queries of each sentence first, then over sentences.
    """
    model = inputs.model
    sites = [site for site in find_sites(model) if site.kept]
    mean, finite = _Mean(statistic, by_sentence), FiniteLoss()
    with maps_read(model, sites, mean.add):
        for batch in inputs.counted():
            mean.batch = on_device(batch, model)
            finite.add(signal(model, mean.batch, forward(model, mean.batch)))
    finite.check()  # first: a map of nan is not recognised, and its layer would count as not run
    means: dict[Head, float] = {}
    for site in sites:
        if id(site) not in mean.sums:
            hint = "rank by gradient instead, or give inputs that use this part of the model"
            raise no_map(site, hint)
        values = (mean.sums[id(site)] / mean.counts[id(site)]).tolist()
        for index, value in zip(site.kept, values, strict=True):
            means[Head(*site.layer_key, index)] = value
    return {head: means[head] for head in inputs.layout}


@contextmanager
def maps_read(model: nn.Module, sites: Iterable[Site], read: MapReader) -> Iterator[None]:
    """Call `read` with every attention map of these layers; restore the model afterwards.

    A layer that several layers share gives a map for each of its uses.
    """
    with _plain_attention(model), ExitStack() as stack:
        cores = [(site, use.core) for site in sites for use in site.uses]
        for site, core in cores:
            if "output_attentions" in inspect.signature(type(core).forward).parameters:
                request = core.register_forward_pre_hook(_request_map, with_kwargs=True)
                stack.enter_context(request)
            stack.enter_context(core.register_forward_hook(_hook(site, read)))
        yield


def _request_map(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    """Ask the layer for its map. The model, if asked, would keep the maps of all layers."""
    if "output_attentions" in kwargs:
        return args, {**kwargs, "output_attentions": True}
    place = list(inspect.signature(type(module).forward).parameters).index("output_attentions") - 1
    if len(args) > place:  # without self
        return (*args[:place], True, *args[place + 1 :]), kwargs
    return args, {**kwargs, "output_attentions": True}


def no_map(site: Site, hint: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{site.block} layer {site.layer} ({type(site.core).__name__}) was not run, or does not "
        "show its attention probabilities.",
        hint,
    )


def _hook(site: Site, read: MapReader) -> Callable[[nn.Module, Any, Any], Any]:
    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        parts = list(output) if isinstance(output, tuple) else [output]
        heads = len(site.kept)
        number = next((i for i, part in enumerate(parts) if _is_map(part, heads)), None)
        if number is None:
            return None
        probabilities = parts[number]
        read(site, probabilities.to(torch.promote_types(probabilities.dtype, torch.float32)))
        if isinstance(output, tuple) and number == len(parts) - 1 and number > 0:
            return (*parts[:number], None)  # drop the map: all of them would fill the memory
        return None

    return hook


def signal(model: nn.Module, batch: Batch, outputs: Any) -> Tensor:
    """A number for each example that is finite if the output of the model for it is."""
    output = output_of(outputs)
    if output is None:
        return torch.zeros(examples_of(batch))
    labels = batch.get("labels")
    has_classes = labels is not None and not labels.is_floating_point()  # others are not needed
    if has_classes and hasattr(outputs, "logits"):
        return losses_of(output, batch["labels"], shifted=output_kind(model, batch) == "causal")
    real = positions_of(outputs, batch)
    if real is not None:
        output = output.masked_fill(real[..., None] == 0, 0)
    return output.flatten(1).sum(1)


class _Mean:
    """Adds up a statistic of attention maps over the queries that are not padding."""

    def __init__(self, statistic: Statistic, by_sentence: bool):
        self.statistic, self.by_sentence = statistic, by_sentence
        self.batch: Batch = {}
        self.sums: dict[int, Tensor] = {}
        self.counts: dict[int, Tensor] = {}

    def add(self, site: Site, probabilities: Tensor) -> None:
        weight, keys = self._real(site, probabilities)
        values = self.statistic(probabilities, keys).transpose(1, 2)
        if self.by_sentence:
            weight = weight / weight.sum(1, keepdim=True).clamp(min=1)
        total, count = torch.einsum("bqh,bq->h", values, weight), weight.sum()
        self.sums[id(site)] = self.sums.get(id(site), 0) + total
        self.counts[id(site)] = self.counts.get(id(site), 0) + count

    def _real(self, site: Site, probabilities: Tensor) -> list[Tensor]:
        """1 for the queries, and for the keys, of each example that are no padding.

        All of them where the model has positions of its own (images, sound).
        """
        queries = keys = attended(self.batch)
        if site.block in ("decoder", "cross") and (decoded := self._decoded()) is not None:
            queries = decoded
            keys = decoded if site.block == "decoder" else keys
        examples, _, *lengths = probabilities.shape
        return [
            real.to(probabilities)
            if real.shape == (examples, length)
            else probabilities.new_ones(examples, length)
            for real, length in zip((queries, keys), lengths, strict=True)
        ]

    def _decoded(self) -> Tensor | None:
        """The positions of the decoder that count, where there is one beside the encoder."""
        real, ids = real_tokens(self.batch, decoder=True), self.batch.get("decoder_input_ids")
        return torch.ones_like(ids, dtype=torch.bool) if real is None and ids is not None else real


def _is_map(part: object, heads: int) -> bool:
    """Whether this is an attention map: examples x heads x queries x keys, each row adding to 1."""
    if not isinstance(part, Tensor) or part.dim() != 4 or not part.is_floating_point():
        return False
    if part.shape[1] != heads:
        return False
    rows = part[:1, :, :1].float().sum(-1)  # the first query is never padding: that is on the right
    return bool(part.amin() >= 0) and bool(((rows - 1).abs() < 0.05).all())


@contextmanager
def _plain_attention(model: Any) -> Iterator[None]:
    """Compute attention step by step, so that the probabilities exist; restore the kernel after."""
    configs = configs_of(model)
    before = [getattr(config, "_attn_implementation_internal", None) for config in configs]
    try:
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation("eager")
        for config in configs:
            config._attn_implementation_internal = "eager"
        yield
    finally:
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation_internal = implementation
