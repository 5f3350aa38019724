"""The mean of the weights after the last few epochs, which is often better than the last ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .checkpoint import Folder
from .history import read


class Recent:
    """The weights after the last `number` epochs: in the folder of the training, else in memory."""

    def __init__(self, number: int, folder: Folder | None):
        self.number, self.folder = number, folder
        self.weights: dict[int, Any] = {} if folder is None else dict(folder.after())

    def add(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Keep the weights after this epoch, and delete those that are too old."""
        if self.folder is None:
            copies = {name: tensor.detach().clone() for name, tensor in weights.items()}
            self.weights[epoch] = copies
        else:
            self.weights[epoch] = self.folder.keep(f"after-{epoch}", weights)
        for old in [n for n in self.weights if not epoch - self.number < n <= epoch]:
            file = self.weights.pop(old)
            if isinstance(file, Path):
                file.unlink(missing_ok=True)

    def mean(self) -> dict[str, Tensor]:
        return mean([self.weights[epoch] for epoch in sorted(self.weights)])


@torch.no_grad()
def mean(states: Sequence[Mapping[str, Tensor] | Path]) -> dict[str, Tensor]:
    """The mean of weights, by name or in files; tensors of whole numbers are those of the last."""
    total: dict[str, Tensor] = {}
    for state in states:
        for name, tensor in (read(state) if isinstance(state, Path) else state).items():
            if name in total and tensor.is_floating_point():
                total[name] += tensor
            else:
                total[name] = tensor.clone()
    return {n: t / len(states) if t.is_floating_point() else t for n, t in total.items()}
