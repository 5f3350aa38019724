"""The mean output of heads and neurons over real tokens, as the fill of closed gates and cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import torch
from torch import Tensor, nn

from deadhead.errors import DataError, HeadError
from deadhead.forward import forward, on_device
from deadhead.layout import Attention, Batch, FeedForward, HeadLayout, Kind, LayerKey, spans

from .discover import find_every_site, find_sites
from .hooks import attach, hooked
from .rows import batch_first, real_rows
from .site import Site


@dataclass(frozen=True, kw_only=True)
class HeadMeans:
    """The mean of each head at the input of the output projection.

    values: for each (block, layer) that was run, heads x width.
    kept: for each attention layer of the model, the numbers of the heads in its rows.
    neurons: the means of neurons, as of heads of width 1.
    """

    values: Mapping[LayerKey, Tensor]
    kept: Mapping[LayerKey, tuple[int, ...]]
    neurons: HeadMeans | None = None

    def check(self, layout: HeadLayout) -> None:
        """Raise an error unless these are means of the heads, and neurons, of this layout."""
        self._check(layout.attentions)
        if layout.feed_forwards:
            if self.neurons is None:
                raise HeadError(
                    "expected means of neurons too, got those of heads alone.",
                    "write head_means(model, batches, neurons=True)",
                )
            self.neurons._check(layout.feed_forwards)

    def _check(self, layers: Sequence[Attention | FeedForward]) -> None:
        widths = {key: value.shape[-1] for key, value in self.values.items()}
        again = "compute them for this model: means = head_means(model, batches)"
        check_fits("means", self.kept, widths, layers, again)

    def of(self, layer: Attention | FeedForward | Site) -> Tensor:
        """The means of what a layer has left: heads x width; neurons have width 1."""
        if layer.kind == "neurons" and self.neurons is not None:
            return self.neurons.of(layer)
        key = layer.layer_key
        if key not in self.values:
            raise HeadError(
                f"{key[0]} layer {key[1]} has no means: no batch has run it.",
                "give head_means batches that use this part of the model",
            )
        if layer.kept == self.kept[key]:
            return self.values[key]
        left = {number: row for row, number in enumerate(self.kept[key])}
        rows = [left[number] for number in layer.kept]
        return self.values[key][rows]


def check_fits(
    name: str,
    kept: Mapping[LayerKey, tuple[int, ...]],
    widths: Mapping[LayerKey, int],
    layers: Sequence[Attention | FeedForward],
    hint: str,
) -> None:
    """Raise an error unless a fill has a value for each head of the layers, of the same width."""
    places = {layer.layer_key: layer for layer in layers}
    if places.keys() != kept.keys():
        block, number = sorted(places.keys() ^ kept.keys())[0]
        which = "this model" if (block, number) in places else "the other one"
        raise HeadError(
            f"expected the {name} of this model, got the {name} of another one: only {which} has "
            f"{block} layer {number}.",
            hint,
        )
    for key, layer in places.items():
        where, width = f"{key[0]} layer {key[1]}", widths.get(key, layer.width)
        units = "neurons" if isinstance(layer, FeedForward) else "heads"
        if layer.kept and width != layer.width:
            raise HeadError(
                f"{where}: expected the {name} of {units} of width {layer.width}, got {width}.",
                hint,
            )
        if missing := sorted(set(layer.kept) - set(kept[key])):
            raise HeadError(
                f"{where}: expected the {name} of its {units}, got none of {spans(missing)}.", hint
            )


def head_means(model: nn.Module, batches: Iterable[Batch], *, neurons: bool = False) -> HeadMeans:
    """The mean output of each head over the real tokens of these batches, padding left out.

    The model runs in evaluation mode. Real are the tokens of `attention_mask`, for the decoder of
    an encoder-decoder those of `decoder_attention_mask` or else the labelled ones. A layer whose
    weights several layers share has the mean over all of them.

    neurons: also the means of the feed-forward neurons.

    >>> means = head_means(model, batches)
    >>> with gated(model, closed=["encoder.3.7"], fill=means):
    ...     logits = model(**batch).logits
    """
    if isinstance(batches, Mapping):
        raise DataError("expected a list of batches, got a single batch.", "write [batch]")
    if not isinstance(batches, Iterable):
        raise DataError(
            f"expected a list of batches, got {type(batches).__name__}.", "write [batch]"
        )
    sites = find_every_site(model, "neurons") if neurons else find_sites(model)
    readers = [_Reader(model, site) for site in sites]
    runs = 0
    with hooked(model, sites) as stack, evaluating(model), torch.no_grad():
        for reader in readers:
            if reader.site.kept:
                stack.callback(attach(reader.site, reader))
        for number, batch in enumerate(batches):
            _check_batch(number, batch)
            moved, runs = on_device(batch, model), runs + 1
            for reader in readers:
                reader.batch = moved
            forward(model, moved)
    if not any(reader.dtype for reader in readers):
        expected = "a batch that runs an attention layer" if runs else "at least one batch"
        raise DataError(f"expected {expected}, got none.", "give the batches to average over")
    heads, rest = (
        HeadMeans(
            values={r.site.layer_key: r.mean() for r in readers if r.site.kind == kind and r.dtype},
            kept={r.site.layer_key: r.site.kept for r in readers if r.site.kind == kind},
        )
        for kind in get_args(Kind)
    )
    return replace(heads, neurons=rest if neurons else None)


def _check_batch(number: int, batch: Any) -> None:
    if not isinstance(batch, Mapping):
        raise DataError(
            f"batch {number} expects a dict, got {type(batch).__name__}.",
            'give dicts ready for model(**batch), such as tokenizer(texts, return_tensors="pt")',
        )
    ids = batch.get("input_ids")
    if ids is None:
        return  # images, audio
    shape = list(ids.shape) if isinstance(ids, Tensor) else None
    if shape is None or len(shape) < 2 or 0 in shape:
        got = type(ids).__name__ if shape is None else f"shape {shape}"
        raise DataError(
            f"`input_ids` of batch {number} expects a tensor of examples x tokens, got {got}.",
            "for a single example write input_ids[None]",
        )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, also of each part; restored afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass(eq=False)
class _Reader:
    """Sums what an output projection reads over the real tokens of all batches."""

    model: nn.Module
    site: Site
    batch: Batch = field(default_factory=dict)
    total: Tensor | int = 0  # heads * width, in double precision
    count: int = 0  # rows behind the sum
    dtype: torch.dtype | None = None  # None: the layer has not run

    def __call__(self, context: Tensor) -> Tensor:
        rows = batch_first(self.site, context)
        real = real_rows(self.model, self.batch, self.site, rows)
        precise = torch.float32 if rows.device.type == "mps" else torch.float64
        chosen = rows.flatten(0, -2) if real is None else rows[real]
        self.total = chosen.sum(0, dtype=precise) + self.total
        self.count += len(chosen)
        self.dtype = torch.promote_types(rows.dtype, torch.float32)
        return context

    def mean(self) -> Tensor:
        layer = f"{self.site.block} layer {self.site.layer}"
        if not self.count:
            raise DataError(
                f"expected real tokens in {layer}, got only padding.",
                "check the attention masks of the batches",
            )
        mean = torch.as_tensor(self.total / self.count)
        if not bool(mean.isfinite().all()):
            raise DataError(
                f"the mean of {layer} is not a finite number.",
                "check the model's weights for nan or infinity",
            )
        return mean.to(self.dtype).unflatten(-1, (len(self.site.kept), self.site.width))
