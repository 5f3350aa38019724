"""The scales of Kwon et al. 2022: after the cut, one factor for each remaining head and neuron.

Layer by layer, least squares find the factors with which the small model gives the residual stream
of its teacher again: of the model that loses less, if the choice names one, else of the whole
model. All layers get factors, also those that lose nothing, but not the first heads. Of the last
neurons, only the tokens count that the logits are read from: the first of each text in BERT. All
examples are fitted to, and nothing judges the result: the layers end with the first one whose
factors are no good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress
from deadhead.forward import forward
from deadhead.heads.prune import Cut, checked_cuts
from deadhead.heads.rows import batch_first
from deadhead.heads.site import Site
from deadhead.layout import Batch
from deadhead.rankers.loss import output_of

from .held_out import FitBatches, Parts
from .projection import Projection, Solution
from .refitting import RefitPlan, Solver, closed, name_of, planned, row
from .solve import damped_scales
from .streams import Streams

if TYPE_CHECKING:
    from .choose import Choice

LARGEST = 10.0  # a factor beyond it, of either sign, ends the search


def plan_scales(
    model: nn.Module, batches: Iterable[Batch], choice: Choice, *, progress: bool | Progress = True
) -> RefitPlan:
    """Solve the scales of a choice without any change of the model."""
    cuts = checked_cuts(model, choice.heads, choice.neurons, biases=False, everywhere=True)
    of_teacher: list[Cut] = []
    if (teacher := choice.teacher) is not None:
        of_teacher = checked_cuts(model, teacher.heads, teacher.neurons, biases=False)
    return planned(
        lambda: _Scales(model, FitBatches(model, batches, holds_out=False), of_teacher),
        model, cuts, cuts, progress,
    )  # fmt: skip


class _Scales(Solver):
    """Solves the scales of the projections of a model one after the other."""

    def __init__(self, model: nn.Module, data: FitBatches, of_teacher: Sequence[Cut]):
        super().__init__(model, data, ("scales",))
        self.of_teacher = of_teacher
        self.is_over = False

    def _streams(self, cuts: Sequence[Cut]) -> Streams:
        sites = {cut.site.key: cut.site for cut in cuts}
        teacher = {id(sites[cut.site.key]): partial(closed, cut) for cut in self.of_teacher}
        return Streams(self.model, sites.values(), teacher)

    def _solve(
        self, cut: Cut, order: Sequence[Cut], count: Callable[[int], None]
    ) -> Solution | None:
        if self.is_over:
            return None
        self.last = order[-1].site
        is_first = cut is order[0] and cut.site.kind == "heads"
        projection = Projection(cut, self.names)
        target = None if is_first or not cut.left else self._read(projection, count)
        if target is None:
            self.streams.change(cut.site, partial(closed, cut))
            return None
        sums, site = projection.fit.precise(), cut.site
        weight = projection.weight.T.to(sums.inputs)
        factors = damped_scales(sums, weight, site.width, constant=site.kind == "heads")
        if factors is None or factors.abs().max() > LARGEST:
            self.is_over = True
            self.notes.append(
                f"{name_of(cut.site)} and all after it have no scales: its own are not solved, or "
                f"beyond {LARGEST:g}."
            )
            return None
        solution = projection.scaled(factors)
        self.layers.append(row(solution, target))
        return solution

    def _parts(self, number: int, batch: Batch, site: Site, context: Tensor) -> Parts:
        """Keep only the rows of the last neurons that the logits of an example depend on."""
        fitted, held_out = super()._parts(number, batch, site, context)
        if site is self.last and site.kind == "neurons":
            fitted = fitted[self._is_read(batch, site)[fitted]]
        return fitted, held_out

    def _is_read(self, batch: Batch, site: Site) -> Tensor:
        """Whether the logits depend on each row that a projection gives."""
        outputs: list[Tensor] = []

        def begin(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            outputs.append(output.detach().requires_grad_())
            return outputs[-1]

        with torch.enable_grad():
            with ExitStack() as stack:
                for out in site.outs:
                    stack.enter_context(out.register_forward_hook(begin))
                logits = output_of(forward(self.model, batch))
            output = outputs[-1]
            gradient = torch.ones_like(output)
            if logits is not None and logits.dim() == 2:  # or they are of tokens
                (gradient,) = torch.autograd.grad(logits.float().sum(), [output])
        return batch_first(site, gradient).flatten(0, -2).any(-1)
