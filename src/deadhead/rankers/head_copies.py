"""Run a batch again with another head replaced in every copy of it.

Replacing the output of a head of layer l changes nothing below l, so a batch is run once and its
layers are recorded (replay.py); the model is then run from layer l upwards, with the batch repeated
and another head replaced in every copy. What replaces it is a fill: nothing (0), the head's mean,
or its output in another run.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deadhead.forward import device_of
from deadhead.heads.captured import Captured, captured
from deadhead.heads.hooks import attach
from deadhead.heads.means import head_means
from deadhead.heads.rows import batch_first
from deadhead.heads.site import Site
from deadhead.layout import Batch, HeadLayout
from deadhead.registry.options import Count, OptionError, accepts, expected

from .loss import CORRUPT, attended, examples_of, forward, on_device
from .ranker import RankerInputs
from .replay import Replay, repeated

TOKENS = {"cpu": 1024, "cuda": 65536}  # the CPU's was measured; a GPU only has to be kept busy

# What replaces the input of a layer's output projection at its n-th call in a pass: a number, or a
# tensor that fits examples x positions x features.
Fill = Callable[[Site, int], Tensor | float]


def zero(site: Site, call: int) -> float:
    return 0.0


def fill_from(run: Captured) -> Fill:
    """Fill with what the layer read at the same call of another run."""
    return lambda site, call: run.of(site)[call]


def fill_of_batches(inputs: RankerInputs, fill: str) -> Callable[[Batch], Fill]:
    """A function that gives the fill of each batch: streaming, of its corrupt batch, or by name."""
    model, batches, streaming = inputs.model, inputs.batches, inputs.streaming
    if streaming is not None:
        return lambda batch: lambda site, call: batch_first(site, streaming.of(site.layer_key))
    means = head_means(model, batches) if fill == "mean" and CORRUPT not in batches[0] else None

    def fill_of(batch: Batch) -> Fill:
        if CORRUPT in batch:
            with torch.no_grad(), captured(model) as run:
                forward(model, on_device(batch[CORRUPT], model))
            return fill_from(run)
        if means is None:
            return zero
        return lambda site, call: means.of(site).flatten(-2)

    return fill_of


class Change(NamedTuple):
    """The head that one copy of the batch has replaced: at one position, or at all."""

    column: int  # among the heads that the layer has left
    position: int | None = None


def columns_of(site: Site, layout: HeadLayout) -> list[int]:
    """The columns of the heads of a layout, among the heads a layer has left."""
    return [site.kept.index(index) for index in layout[site.layer_key].kept]


def token_budget(model: nn.Module, tokens: int | None) -> int:
    """How many tokens one pass may have, padding counted."""
    if tokens is not None and not accepts(Count, tokens):
        raise OptionError(f"`tokens` expects {expected(Count)}, got {tokens!r}.", "leave it out")
    return tokens or TOKENS.get(device_of(model).type, TOKENS["cuda"])


def portions(batch: Batch, changes: Sequence[Change], budget: int) -> Iterator[Sequence[Change]]:
    """The changes of one pass, each for a copy of the batch."""
    labels = batch.get("labels")
    labelled = labels.shape[1] if labels is not None and labels.dim() == 2 else 1
    positions = max(attended(batch).shape[1], labelled)
    at_once = max(1, min(len(changes), budget // (examples_of(batch) * positions)))
    for start in range(0, len(changes), at_once):
        yield changes[start : start + at_once]


def in_copies(
    run: Callable[[Batch], Any],
    batch: Batch,
    site: Site,
    changes: Sequence[Change],
    *,
    fill: Fill,
    replay: Replay,
) -> Any:
    """What `run` gives for a copy of the recorded batch for each change, one after the other."""
    calls = 0

    def replace(context: Tensor) -> Tensor:
        nonlocal calls
        filling, calls = fill(site, calls), calls + 1
        return replaced(context, site, changes, filling)

    undo = attach(site, replace)
    try:
        with replay.start_at(site.layer_key, len(changes)):
            return run(repeated(batch, len(changes)))
    finally:
        undo()


def replaced(
    context: Tensor, site: Site, changes: Sequence[Change], filling: Tensor | float
) -> Tensor:
    """The input of an output projection with another head replaced in every copy of the batch."""
    axis = 1 if site.time_first else 0
    copies = context.transpose(0, axis).clone()
    fillings: Sequence[Any] = [filling] * len(changes)
    if isinstance(filling, Tensor) and filling.dim() > 1 and len(filling) == len(copies):
        fillings = filling.tensor_split(len(changes))  # each copy has its own
    rows = zip(copies.tensor_split(len(changes)), changes, fillings, strict=True)
    for copy, (column, position), filling in rows:
        features = slice(column * site.width, (column + 1) * site.width)
        places = (..., features) if position is None else (slice(None), position, features)
        if isinstance(filling, Tensor):
            whole = filling.to(copy.device).expand(copy.shape)
            copy[places] = whole[places].to(copy.dtype)
        else:
            copy[places] = filling
    return copies.transpose(0, axis)
