"""The loss and the accuracy of a model with each head closed in turn.

Closing a head of layer l changes nothing below l, so each batch is run once and its layers are
recorded; the model is then run from layer l upwards, with the batch repeated and another head
closed in every copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from deadhead.heads.discover import find_sites
from deadhead.heads.hooks import attach
from deadhead.heads.sites import Site
from deadhead.layout import Head, HeadLayout

from .loss import (
    IGNORED,
    LOSS,
    FiniteLoss,
    attended,
    examples_of,
    forward,
    losses_from,
    on_device,
    output_kind,
)
from .ranker import Progress
from .replay import Replay, repeated, replaying

TOKENS = {"cpu": 1024, "cuda": 65536}  # the CPU's was measured; a GPU only has to be kept busy
Result = tuple[float, float]  # mean loss of an example, accuracy of a labelled token


@torch.no_grad()
def with_each_head_closed(
    model: nn.Module,
    layout: HeadLayout,
    batches: Sequence[Mapping[str, Tensor]],
    tokens: int | None,
    progress: Progress,
) -> tuple[Result, dict[Head, Result]]:
    """The result of the whole model, and with each head of the layout closed."""
    sites = [site for site in find_sites(model) if _columns(site, layout)]
    budget = tokens or TOKENS.get(next(model.parameters()).device.type, TOKENS["cuda"])
    finite, steps = FiniteLoss(), len(sites) * len(batches)
    whole: list[Tensor] = []
    closed: dict[Head, list[Tensor]] = {head: [] for head in layout}
    with replaying(model) as replay:
        for number, batch in enumerate(batches):
            batch = on_device(batch, model)
            with replay.record(examples_of(batch)):
                full = _measures(model, batch, 1)
            finite.add(full[0, 0])
            whole.append(full[0].sum(1))
            for step, site in enumerate(sites):
                for chosen in _portions(batch, _columns(site, layout), budget):
                    values = _without(model, batch, site, chosen, replay).sum(2)
                    for column, value in zip(chosen, values, strict=True):
                        closed[Head(site.block, site.layer, site.kept[column])].append(value)
                progress(number * len(sites) + step + 1, steps)
    finite.check()
    return _means(whole, batches), {head: _means(sums, batches) for head, sums in closed.items()}


def _columns(site: Site, layout: HeadLayout) -> list[int]:
    """The columns of the heads to score, among the heads a layer has left."""
    heads = [Head(site.block, site.layer, index) for index in site.kept]
    return [column for column, head in enumerate(heads) if head in layout]


def _portions(batch: Mapping[str, Tensor], columns: list[int], budget: int) -> Iterator[list[int]]:
    """The columns to close in one pass, each in a copy of the batch."""
    labels = batch.get("labels")
    labelled = labels.shape[1] if labels is not None and labels.dim() == 2 else 1
    positions = max(attended(batch).shape[1], labelled)
    at_once = max(1, min(len(columns), budget // (examples_of(batch) * positions)))
    for start in range(0, len(columns), at_once):
        yield columns[start : start + at_once]


def _without(
    model: nn.Module, batch: Mapping[str, Tensor], site: Site, columns: list[int], replay: Replay
) -> Tensor:
    """The measures of the batch with each of these heads of one layer closed."""
    axis = 1 if site.time_first else 0

    def close(context: Tensor) -> Tensor:
        """Close another head in every copy of the batch."""
        copies = context.transpose(0, axis).clone()
        for copy, column in zip(copies.tensor_split(len(columns)), columns, strict=True):
            copy[..., column * site.width : (column + 1) * site.width] = 0
        return copies.transpose(0, axis)

    undo = attach(site, close)
    try:
        with replay.start_at((site.block, site.layer), len(columns)):
            return _measures(model, repeated(batch, len(columns)), len(columns))
    finally:
        undo()


def _measures(model: nn.Module, batch: Mapping[str, Tensor], copies: int) -> Tensor:
    """Copies x (loss, right tokens) x examples; tokens are nan where the loss needs no labels."""
    output = forward(model, batch)
    losses = losses_from(model, batch, output)
    right = torch.full_like(losses, math.nan)
    if LOSS not in batch:
        logits, labels = output.logits, batch["labels"]
        if output_kind(model, batch) == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        correct = (logits.argmax(-1) == labels) & (labels != IGNORED)
        right = correct.reshape(len(labels), -1).sum(1)
    precise = torch.float32 if losses.device.type == "mps" else torch.float64
    both = torch.stack([losses.to(precise), right.to(precise)])
    return both.unflatten(1, (copies, -1)).transpose(0, 1)


def _means(sums: list[Tensor], batches: Sequence[Mapping[str, Tensor]]) -> Result:
    """The mean loss of an example and the accuracy of a labelled token, from sums over batches."""
    loss, right = torch.stack(sums).sum(0).tolist()
    labelled = sum(int((b["labels"] != IGNORED).sum()) for b in batches if LOSS not in b)
    return loss / sum(map(examples_of, batches)), right / labelled if labelled else math.nan
