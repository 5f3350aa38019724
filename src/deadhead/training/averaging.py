"""The mean of the weights after the last few epochs, which is often better than the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .checkpoint import Folder
from .history import read


class Recent:
    """The weights after the last `number` epochs: in the folder of the training, so that a kill loses none, else in memory."""

    def __init__(self, number: int, folder: Folder | None):
        self.number, self.folder = number, folder
        self.held: dict[int, Any] = {} if folder is None else dict(folder.after())

    def add(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Remember the weights after this epoch, and forget those that are too old."""
        if self.folder is None:
            self.held[epoch] = {name: tensor.detach().clone() for name, tensor in weights.items()}
        else:
            self.held[epoch] = self.folder.keep(f"after-{epoch}", weights)
        for old in [number for number in self.held if not epoch - self.number < number <= epoch]:
            gone = self.held.pop(old)
            if isinstance(gone, Path):
                gone.unlink(missing_ok=True)

    def mean(self) -> dict[str, Tensor]:
        return mean([self.held[epoch] for epoch in sorted(self.held)])


@torch.no_grad()
def mean(several: Sequence[Mapping[str, Tensor] | Path]) -> dict[str, Tensor]:
    """The mean of weights, each by name or in a file; what is no number with a fraction is that of the last."""
    total: dict[str, Tensor] = {}
    for one in several:
        weights = read(one) if isinstance(one, Path) else one
        for name, tensor in weights.items():
            if name in total and tensor.is_floating_point():
                total[name] += tensor
            else:
                total[name] = tensor.clone()
    return {
        name: tensor / len(several) if tensor.is_floating_point() else tensor
        for name, tensor in total.items()
    }
