"""The loss and the accuracy of a model with each head closed in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from deadhead.heads.discover import find_sites
from deadhead.layout import Batch, Head, HeadLayout

from .fills import Fill
from .head_copies import Change, columns_of, in_copies, portions, token_budget
from .loss import (
    IGNORED,
    LOSS,
    FiniteLoss,
    examples_of,
    forward,
    losses_from,
    on_device,
    output_kind,
)
from .ranker import Progress
from .replay import replaying

LossAndAccuracy = tuple[float, float]  # mean loss of an example, accuracy of a labelled token


@torch.no_grad()
def with_each_head_closed(
    model: nn.Module,
    layout: HeadLayout,
    batches: Sequence[Batch],
    *,
    fill_of: Callable[[Batch], Fill],
    tokens: int | None = None,
    progress: Progress,
) -> tuple[LossAndAccuracy, dict[Head, LossAndAccuracy]]:
    """The result of the whole model, and with each head of the layout closed.

    fill_of: what replaces a closed head of a batch.
    """
    every = find_sites(model)
    sites = [site for site in every if columns_of(site, layout)]
    budget = token_budget(model, tokens)
    finite, steps = FiniteLoss(), len(sites) * len(batches)
    whole: list[Tensor] = []
    closed: dict[Head, list[Tensor]] = {head: [] for head in layout}
    with replaying(model, every) as replay:
        for number, batch in enumerate(batches):
            batch, fill = on_device(batch, model), fill_of(batch)
            full = replay.record(partial(_measures, model, 1), batch)
            finite.add(full[0, 0])
            whole.append(full[0].sum(1))
            for step, site in enumerate(sites):
                changes = [Change(column) for column in columns_of(site, layout)]
                for chosen in portions(batch, changes, budget):
                    run = partial(_measures, model, len(chosen))
                    copies = in_copies(run, batch, site, chosen, fill=fill, replay=replay)
                    values = copies.sum(2)
                    for (column, _), value in zip(chosen, values, strict=True):
                        closed[Head(site.block, site.layer, site.kept[column])].append(value)
                progress(number * len(sites) + step + 1, steps)
    finite.check()
    return _means(whole, batches), {head: _means(sums, batches) for head, sums in closed.items()}


def _measures(model: nn.Module, copies: int, batch: Batch) -> Tensor:
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


def _means(sums: list[Tensor], batches: Sequence[Batch]) -> LossAndAccuracy:
    """The mean loss of an example and the accuracy of a labelled token, from sums over batches."""
    loss, right = torch.stack(sums).sum(0).tolist()
    labelled = sum(int((b["labels"] != IGNORED).sum()) for b in batches if LOSS not in b)
    return loss / sum(map(examples_of, batches)), right / labelled if labelled else math.nan
