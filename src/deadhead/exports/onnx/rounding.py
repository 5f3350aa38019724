"""How a graph differs from a model, and by how much rounding alone moves what the model answers.

Some models enlarge each rounding error, so two runtimes that are both right differ more.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

Run = Callable[[nn.Module], Sequence[Tensor]]  # what a module answers to a batch


class Difference(NamedTuple):
    """How a graph differs from a module on one batch, as a share of the largest output."""

    gap: float
    module: nn.Module
    run: Run

    def rounding(self) -> float:
        """How the module differs from itself in float64; 0 if it cannot run in float64."""
        try:
            exact = copy.deepcopy(self.module).double()
            with torch.no_grad():
                return largest_share(self.run(self.module), self.run(exact))
        except (RuntimeError, TypeError, MemoryError):
            return 0.0


def difference(got: Sequence[Tensor], module: nn.Module, run: Run) -> Difference:
    """Compare what a graph gave with what `run` gives for the module."""
    with torch.no_grad():
        return Difference(largest_share(got, run(module)), module, run)


def largest_share(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference of two lists of outputs, as a share of the largest value of each."""
    return max(
        float((one - other).abs().max() / other.abs().max())
        for one, other in zip(got, expected, strict=True)
    )
