"""What replaces the output of a closed head: 0, its mean, or its output in another run."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from deadhead.heads.captured import Captured, captured
from deadhead.heads.means import head_means
from deadhead.heads.site import Site
from deadhead.layout import Batch

from .loss import CORRUPT, forward, on_device

# What replaces the input of a layer's output projection at its n-th call in a pass: a number, or a
# tensor that fits examples x positions x features.
Fill = Callable[[Site, int], Tensor | float]


def zero(site: Site, call: int) -> float:
    return 0.0


def fill_from(run: Captured) -> Fill:
    """Fill with what the layer read at the same call of another run."""
    return lambda site, call: run.of(site.attention())[call]


def fill_of_batches(
    model: nn.Module, batches: Sequence[Batch], fill: str
) -> Callable[[Batch], Fill]:
    """A function that gives the fill for each batch: of its corrupt batch, or by name."""
    means = head_means(model, batches) if fill == "mean" and CORRUPT not in batches[0] else None

    def fill_of(batch: Batch) -> Fill:
        if CORRUPT in batch:
            with torch.no_grad(), captured(model) as run:
                forward(model, on_device(batch[CORRUPT], model))
            return fill_from(run)
        if means is None:
            return zero
        return lambda site, call: means.of(site.attention()).flatten(-2)

    return fill_of
