"""An output projection that loses inputs: the sums it is solved from, and its new weights."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from deadhead.heads.layers import replaced
from deadhead.heads.parts import out_axis
from deadhead.heads.prune import Cut
from deadhead.heads.rows import batch_first

from .candidates import CANDIDATES
from .held_out import Parts
from .solve import NOTHING, Change, Sums, best, candidates, error
from .streams import Call, is_close


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The new weights of a projection in the precision of the old ones, and how good they are.

    The errors are those of `solve.best`.
    """

    cut: Cut
    name: str  # that of the candidate
    weight: Tensor  # outputs x kept inputs
    bias: Tensor | None
    error_cut: float
    error_refitted: float

    def install(self) -> Callable[[], None]:
        """Have the projection of the whole model compute with these weights."""
        columns = columns_of(self.cut).to(self.weight.device)
        width = len(self.cut.site.kept) * self.cut.site.width
        weight = self.weight.new_zeros(len(self.weight), width)
        weight[:, columns] = self.weight
        compute = partial(F.linear, weight=weight, bias=self.bias)
        undo = ExitStack()
        for out in self.cut.site.outs:
            undo.callback(replaced(out, compute))
        return undo.close

    def write(self) -> None:
        """Give a projection that loses no inputs these weights; it has a bias if they have one."""
        out: Any = self.cut.site.out
        with torch.no_grad():
            out.weight.copy_(self.weight)
            if self.bias is not None:
                out.bias.copy_(self.bias)


class Projection:
    """The output projection of a site, and sums over the tokens of a small run."""

    def __init__(self, cut: Cut, names: Iterable[str], *, new_bias: bool = True):
        """names: the candidates that will be asked for, which decide what must be added up.

        new_bias: whether a projection without a bias may get one.
        """
        self.cut, self.names = cut, tuple(names)
        out: Any = cut.site.out
        self.old = out.weight.detach() if out_axis(out) == 0 else out.weight.detach().T
        bias = getattr(out, "bias", None)
        self.old_bias = bias.detach() if isinstance(bias, Tensor) else None
        self.columns = columns_of(cut).to(self.old.device)
        self.precision = torch.promote_types(self.old.dtype, torch.float32)
        self.weight = self.old[:, self.columns].to(self.precision)  # outputs x kept inputs
        self.bias = None if self.old_bias is None else self.old_bias.to(self.precision)
        sizes, device = (len(self.columns), len(self.old)), self.old.device
        # the sums of products take most of the time, and a bias alone does not need them
        chosen = [CANDIDATES[name] for name in self.names]
        constant = new_bias or self.bias is not None
        changes_weights = any(kind.unknowns != "bias" for kind in chosen)
        self.fit, self.weighted, self.held_out = (
            Sums.zeros(*sizes, device, products=changes_weights, constant=constant)
            for _ in range(3)
        )
        self.adds_fit = not all(kind.relative for kind in chosen)
        self.adds_weighted = any(kind.relative for kind in chosen)
        self.tokens = self.held_out_tokens = 0

    def explains(self, call: Call) -> bool:
        """Whether the projection gives the product of its input and its weight, and its bias."""
        return is_close(call.output, F.linear(call.inputs, self.old, self.old_bias))

    def add(self, whole: Call, small: Call, parts: Parts) -> None:
        """Add the rows of a call in both runs."""
        with torch.autocast(self.old.device.type, enabled=False):
            inputs = self._rows(small.inputs).index_select(1, self.columns)
            targets = self._rows(whole.output)
            if whole.added is not None and small.added is not None:
                targets = targets + (self._rows(whole.added) - self._rows(small.added))
            errors = targets - F.linear(inputs, self.weight, self.bias)
            squared = targets.square().sum(1)
            x, e, t, weights = _chosen(parts[0], inputs, errors, squared)
            if self.adds_fit:
                self.fit.add(x, e, t, weights)
            if self.adds_weighted:
                self.weighted.add(x, e, t, _relative(weights, t))
            self.tokens += len(parts[0])
            x, e, t, weights = _chosen(parts[1], inputs, errors, squared)
            # a few tokens, such as [SEP], have far larger targets, which would decide alone
            self.held_out.add(x, e, t, _relative(weights, t))
            self.held_out_tokens += len(parts[1])

    def _rows(self, value: Tensor) -> Tensor:
        return batch_first(self.cut.site, value).flatten(0, -2).to(self.precision)

    def unchanged(self) -> Solution:
        """The projection that is cut and keeps its weights."""
        return self._solution(NOTHING, self.weight, self.bias, (0.0, 0.0))

    def is_finite(self) -> bool:
        first = self.fit if self.adds_fit else self.weighted
        return first.is_finite() and self.held_out.is_finite()

    def solution(self) -> Solution:
        """The best candidate."""
        fit, weighted, held_out = (
            sums.precise() for sums in (self.fit, self.weighted, self.held_out)
        )
        weight = self.weight.T.to(fit.inputs)  # inputs x outputs
        changes = candidates(self.names, fit, weighted, weight, self.cut.site.width)
        change, before, after = best(changes, held_out, weight)
        return self.solution_by(change, (before, after))

    def solution_by(self, change: Change, errors: tuple[float, float]) -> Solution:
        """Apply a change to the projection."""
        weight, bias = self._changed(change)
        kept = bias if self.fit.constant and change.name != NOTHING else self.bias
        return self._solution(change.name, weight.T, kept, errors)

    def scaled(self, factors: Tensor) -> Solution:
        """The projection with a factor for each unit, and its relative error on all tokens."""
        fit, old = self.fit.precise(), self.weight.T.to(factors)
        weight = factors.repeat_interleave(self.cut.site.width)[:, None] * old
        change = Change("scales", weight - old, torch.zeros_like(fit.errors))
        total = float(fit.squared_target) or 1.0
        errors = float(fit.squared_error) / total, float(error(fit, change)) / total
        return self._solution("scales", weight.T, self.bias, errors)

    def output(self, inputs: Tensor, change: Change) -> Tensor:
        """Compute the output with this change, in the precision of the change."""
        weight, bias = self._changed(change)
        return inputs.to(weight) @ weight + bias

    def _changed(self, change: Change) -> tuple[Tensor, Tensor]:
        """The weight (inputs x outputs) and the bias with a change, in its precision."""
        bias = change.bias if self.bias is None else change.bias + self.bias.to(change.bias)
        return self.weight.T.to(change.weight) + change.weight, bias

    def _solution(
        self, name: str, weight: Tensor, bias: Tensor | None, errors: tuple[float, float]
    ) -> Solution:
        return Solution(
            cut=self.cut,
            name=name,
            weight=weight.to(self.old).contiguous(),
            bias=None if bias is None else bias.to(self.old),
            error_cut=errors[0],
            error_refitted=errors[1],
        )


def _relative(weights: Tensor, squared_targets: Tensor) -> Tensor:
    """The weights of tokens for errors relative to their targets."""
    return torch.where(squared_targets > 0, weights / squared_targets, 0)


def columns_of(cut: Cut) -> Tensor:
    """The inputs of a projection that stay."""
    width, position = cut.site.width, {unit: n for n, unit in enumerate(cut.site.kept)}
    first = torch.tensor([position[unit] * width for unit in cut.left], dtype=torch.long)
    return (first[:, None] + torch.arange(width)).flatten()


def _chosen(numbers: Tensor, *values: Tensor) -> list[Tensor]:
    """The rows of these numbers of each value, and their weights."""
    chosen = [value.index_select(0, numbers) for value in values]
    return [*chosen, torch.ones_like(chosen[-1])]
