"""Random directions to measure an output along, drawn for each example by its own seed."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def generators(seeds: Iterable[Tensor]) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(int(seed)) for seed in seeds]


def normal(output: Tensor, draws: Sequence[torch.Generator]) -> Tensor:
    """A direction of the shape of each example's output."""
    directions = [torch.randn(output.shape[1:], generator=draw) for draw in draws]
    return torch.stack(directions).to(output)
