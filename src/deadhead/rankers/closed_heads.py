"""The loss and the accuracy of a model with each head closed in turn."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from deadhead.heads.discover import find_sites
from deadhead.layout import Batch, Head

from .head_copies import Change, columns_of, fill_of_batches, in_copies, portions, token_budget
from .loss import IGNORED, LOSS, FiniteLoss, examples_of, losses_and_right, on_device
from .ranker import RankerInputs
from .replay import replaying

LossAndAccuracy = tuple[float, float]  # mean loss of an example, accuracy of a labelled token


@torch.no_grad()
def with_each_head_closed(
    inputs: RankerInputs, fill: str, tokens: int | None
) -> tuple[LossAndAccuracy, dict[Head, LossAndAccuracy]]:
    """The result of the whole model, and with each head of the layout closed.

    fill: what replaces a closed head. tokens: at most, padding counted, in one pass.
    """
    model, layout, batches = inputs.model, inputs.layout, inputs.batches
    fill_of = fill_of_batches(inputs, fill)
    every = find_sites(model)
    sites = [site for site in every if columns_of(site, layout)]
    budget = token_budget(model, tokens)
    finite, steps = FiniteLoss(), len(sites) * len(batches)
    whole: list[Tensor] = []
    closed: dict[Head, list[Tensor]] = {head: [] for head in layout}
    with replaying(model, every) as replay:
        for number, batch in enumerate(batches):
            batch, filling = on_device(batch, model), fill_of(batch)
            full = replay.record(partial(_measures, model, 1), batch)
            finite.add(full[0, 0])
            whole.append(full[0].sum(1))
            for step, site in enumerate(sites):
                changes = [Change(column) for column in columns_of(site, layout)]
                for chosen in portions(batch, changes, budget):
                    run = partial(_measures, model, len(chosen))
                    copies = in_copies(run, batch, site, chosen, fill=filling, replay=replay)
                    values = copies.sum(2)
                    for (column, _), value in zip(chosen, values, strict=True):
                        closed[Head(*site.layer_key, site.kept[column])].append(value)
                inputs.progress(number * len(sites) + step + 1, steps)
    finite.check()
    return _means(whole, batches), {head: _means(sums, batches) for head, sums in closed.items()}


def _measures(model: nn.Module, copies: int, batch: Batch) -> Tensor:
    """Copies x (loss, right tokens) x examples."""
    both = torch.stack(losses_and_right(model, batch))
    return both.unflatten(1, (copies, -1)).transpose(0, 1)


def _means(sums: list[Tensor], batches: Sequence[Batch]) -> LossAndAccuracy:
    """The mean loss of an example and the accuracy of a labelled token, from sums over batches."""
    loss, right = torch.stack(sums).sum(0).tolist()
    labelled = sum(int((b["labels"] != IGNORED).sum()) for b in batches if LOSS not in b)
    return loss / sum(map(examples_of, batches)), right / labelled if labelled else math.nan
