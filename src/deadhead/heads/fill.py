"""What a closed gate lets through instead of its head: nothing, means, other examples, a run."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from deadhead.errors import DataError, HeadError, UnknownName, UnsupportedModel, unknown_name
from deadhead.layout import HeadLayout

from .call import Calls
from .captured import Captured
from .means import HeadMeans
from .rows import batch_first
from .site import Site
from .streaming import Streaming, StreamingOutputs

ZERO, RESAMPLE = "zero", "resample"
Fill = Literal["zero", "resample"] | HeadMeans | Captured | Streaming
Values = Callable[[Tensor], Tensor]  # what an output projection reads -> the fill for it


def check_fill(fill: Any, layout: HeadLayout) -> None:
    """Raise an error for a fill that is none, or that does not fit the heads of the model."""
    hint = (
        'write fill="zero" or "resample"; or give means = head_means(model, batches), a run from '
        "`with captured(model) as clean: ...`, or Streaming(sink=4, recent=256)"
    )
    if isinstance(fill, HeadMeans | Captured):
        fill.check(layout)
    elif isinstance(fill, Streaming):
        if layout.feed_forwards:
            message = "`neurons` expect zeros, means or other examples as `fill`, got streaming."
            raise HeadError(message, "only heads stream: gate the neurons in a block of their own")
    elif not isinstance(fill, str):
        raise DataError(f"`fill` expects a name, means or a run, got {type(fill).__name__}.", hint)
    elif fill not in (ZERO, RESAMPLE):
        raise UnknownName(unknown_name("fill", fill, (ZERO, RESAMPLE)).message, hint)


def values_of(fill: Fill, site: Site, calls: Calls, seed: int, stack: ExitStack) -> Values:
    """The function that gives the fill for a layer. stack: for the undo functions of its hooks."""
    if isinstance(fill, Streaming):
        outputs = StreamingOutputs(fill, [site], calls, stack)
        return lambda context: outputs.of(site.layer_key)
    if isinstance(fill, HeadMeans):
        means, device = fill.of(site).flatten(), next(site.core.parameters()).device
        # once, not at each call; weights that are loaded layer by layer are on no device yet
        moved = means if device.type == "meta" else means.to(device)
        return lambda context: moved.to(context)
    if isinstance(fill, Captured):
        return _CapturedRun(site, fill, calls)
    return _Others(site, calls, seed)


class _CapturedRun:
    """Gives what the same layer read in a captured run, call by call."""

    def __init__(self, site: Site, fill: Captured, calls: Calls):
        self.site, self.calls = site, calls
        self.values, self.padding = fill.of(site), fill.padding.get(site.block)
        self.number = self.uses = 0

    def __call__(self, context: Tensor) -> Tensor:
        values = self.values[self._use()].to(context)
        rows = batch_first(self.site, context)
        if values.shape != rows.shape:
            raise DataError(
                f"{self.site.block} layer {self.site.layer}: expected a captured run of "
                f"{_described(rows)}, got {_described(values)}.",
                "capture a run with inputs of the same shape, padded to the same length; it serves "
                "one forward pass, so generate with max_new_tokens=1",
            )
        self._check_padding()
        return batch_first(self.site, values)

    def _check_padding(self) -> None:
        """Raise an error where a token of this run is padding in the captured run, or the other
        way round."""
        key, run = ("padding", self.site.block), self.calls.now()
        if key in run.kept or torch.compiler.is_compiling():
            return
        both = (self.padding, self.calls.padding(self.site))
        masks = [mask.cpu() for mask in both if mask is not None and not bool(mask.all())]
        if masks and (len(masks) == 1 or not torch.equal(*masks)):
            raise DataError(
                f"{self.site.block}: expected a captured run with the padding of this batch, got "
                "other padding.",
                "padding would be patched into tokens: capture a run with the same attention mask",
            )
        run.kept[key] = torch.empty(0)

    def _use(self) -> int:
        """Which use of the layer in this run it is: layers that share weights have several."""
        run, place = self.calls.now(), f"{self.site.block} layer {self.site.layer}"
        if self.calls.checkpointed and self.calls.model.training:
            if len(self.values) == 1:
                return 0
            raise UnsupportedModel(
                f"{place} is shared by several layers, whose order gradient checkpointing loses.",
                "call model.gradient_checkpointing_disable() first",
            )
        self.uses = self.uses + 1 if self.number == run.number else 1
        self.number = run.number
        if self.uses > len(self.values):
            raise DataError(
                f"{place}: expected a captured run with {self.uses} uses of this layer, got "
                f"{len(self.values)}.",
                "capture a run with inputs of the same kind",
            )
        return self.uses - 1


@dataclass
class _Others:
    """Gives what the layer reads for another example of the batch, token by token."""

    site: Site
    calls: Calls
    seed: int

    def __call__(self, context: Tensor) -> Tensor:
        rows = batch_first(self.site, context)
        self.calls.check_examples(self.site, rows)
        run = self.calls.now()
        key = (RESAMPLE, self.site.block, rows.shape[:-1])
        if key not in run.kept:
            run.kept[key] = self._sources(rows)
        sources = run.kept[key].to(rows.device)
        return batch_first(self.site, rows.flatten(0, 1)[sources])

    def _sources(self, rows: Tensor) -> Tensor:
        """For each row of each example the row that it gets, counted through the whole batch."""
        count, length = rows.shape[:2]
        if count < 2:
            raise DataError(
                'fill="resample" expects a batch of at least two examples, got one.',
                "give it a larger batch, or fill with the means of the heads",
            )
        if not torch.compiler.is_compiling() and self.calls.has_copies(count):
            raise DataError(
                'fill="resample" expects different examples in a batch, got copies, so that the '
                "other example of a row would be its own copy.",
                "leave the copies out; generate with num_beams=1 and num_return_sequences=1",
            )
        donors = torch.tensor(derangement(count, self.seed), device=rows.device)[:, None]
        columns = torch.arange(length, device=rows.device)
        real = self.calls.real(self.site, rows)
        if real is None:
            return donors * length + columns
        lengths = real.sum(1)[donors]
        if not torch.compiler.is_compiling() and not bool(lengths.all()):
            raise DataError(
                'fill="resample" expects real tokens in each example, got one of padding alone.',
                "leave that example out",
            )
        in_front = (~real).long().argsort(dim=1, stable=True)[donors[:, 0]]  # real tokens first
        numbers = (real.long().cumsum(1) - 1).clamp(min=0) % lengths.clamp(min=1)
        examples = torch.arange(count, device=rows.device)[:, None]
        # padding keeps its own
        return torch.where(
            real, donors * length + in_front.gather(1, numbers), examples * length + columns
        )


def derangement(count: int, seed: int) -> list[int]:
    """For each of `count` examples another one, by a seeded permutation without fixed points."""
    draw = random.Random(seed)
    keys = [draw.random() for _ in range(count)]
    circle = sorted(range(count), key=keys.__getitem__)
    donors = dict(zip(circle, [*circle[1:], circle[0]], strict=True))
    return [donors[number] for number in range(count)]


def _described(rows: Tensor) -> str:
    if rows.dim() != 3:
        return f"shape {tuple(rows.shape)}"
    return f"{rows.shape[0]} x {rows.shape[1]} tokens"
