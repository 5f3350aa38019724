"""The mean output of heads and neurons over real tokens, as the fill of closed gates and cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DataError, HeadError
from deadhead.forward import forward, on_device
from deadhead.layout import Attention, FeedForward, HeadLayout, Kind, LayerKey, spans

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

    def of(self, layer: Attention | FeedForward) -> Tensor:
        """The means of what a layer has left: heads x width; neurons have width 1."""
        if isinstance(layer, FeedForward) and self.neurons is not None:
            return self.neurons._of(layer)
        return self._of(layer)

    def _of(self, layer: Attention | FeedForward) -> Tensor:
        key = (layer.block, layer.layer)
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
    places = {(layer.block, layer.layer): layer for layer in layers}
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


def head_means(
    model: nn.Module, batches: Iterable[Mapping[str, Any]], *, neurons: bool = False
) -> HeadMeans:
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
    readers = {site.kind: _Reader(model) for site in sites}
    runs = 0
    with hooked(model, sites) as stack, evaluating(model), torch.no_grad():
        for site in sites:
            if site.kept:
                stack.callback(attach(site, readers[site.kind].at(site)))
        for number, batch in enumerate(batches):
            _check_batch(number, batch)
            moved, runs = on_device(batch, model), runs + 1
            for reader in readers.values():
                reader.batch = moved
            forward(model, moved)
    if not any(reader.sums for reader in readers.values()):
        expected = "a batch that runs an attention layer" if runs else "at least one batch"
        raise DataError(f"expected {expected}, got none.", "give the batches to average over")
    means = {kind: reader.means(sites, kind) for kind, reader in readers.items()}
    empty = HeadMeans(values={}, kept={})
    return replace(means.get("heads", empty), neurons=means.get("neurons"))


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


class _Reader:
    """Sums what each output projection reads over the real tokens of all batches."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.batch: Mapping[str, Any] = {}
        self.sums: dict[LayerKey, Tensor] = {}  # heads * width, in double precision
        self.counts: dict[LayerKey, int] = {}  # rows behind a sum
        self.dtypes: dict[LayerKey, torch.dtype] = {}

    def at(self, site: Site) -> Any:
        def read(context: Tensor) -> Tensor:
            rows = batch_first(site, context)
            self._add(site, rows, real_rows(self.model, self.batch, site, rows))
            return context

        return read

    def _add(self, site: Site, rows: Tensor, real: Tensor | None) -> None:
        key = site.layer_key
        precise = torch.float32 if rows.device.type == "mps" else torch.float64
        chosen = rows.flatten(0, -2) if real is None else rows[real]
        self.sums[key] = chosen.sum(0, dtype=precise) + self.sums.get(key, 0)
        self.counts[key] = len(chosen) + self.counts.get(key, 0)
        self.dtypes[key] = torch.promote_types(rows.dtype, torch.float32)

    def means(self, sites: Iterable[Site], kind: Kind) -> HeadMeans:
        own = {site.layer_key: site for site in sites if site.kind == kind}
        return HeadMeans(
            values={key: self._mean(site) for key, site in own.items() if key in self.sums},
            kept={key: site.kept for key, site in own.items()},
        )

    def _mean(self, site: Site) -> Tensor:
        key = site.layer_key
        if not self.counts[key]:
            raise DataError(
                f"expected real tokens in {site.block} layer {site.layer}, got only padding.",
                "check the attention masks of the batches",
            )
        mean = self.sums[key] / self.counts[key]
        if not bool(mean.isfinite().all()):
            raise DataError(
                f"the mean of {site.block} layer {site.layer} is not a finite number.",
                "check the model's weights for nan or infinity",
            )
        return mean.to(self.dtypes[key]).unflatten(-1, (len(site.kept), site.width))
