"""Read the gradient of the loss at the gate of every head, or of every neuron.

A gate blends, g * context + (1 - g) * fill. For an open gate, d loss / d gate is the sum over
positions of (context - fill) times the gradient arriving there, so the gate need not multiply
anything: it lets the context through and reads its score on the way back. Integrated gradients do
the same at other values of all gates together. With an axis for the
batch, one backward pass gives the value of every example separately, and because the weights are
frozen, only the gradients of the gates are computed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_sites
from deadhead.heads.gates import gated
from deadhead.heads.hooks import attach
from deadhead.heads.layers import is_repeated
from deadhead.heads.rows import batch_first
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, HeadLayout, SiteKey

from .head_copies import Fill, columns_of, fill_of_batches, zero
from .loss import IGNORED, LOSS, SEEDS, FiniteLoss, example_losses, examples_of
from .ranker import RankerInputs, Scores

T = TypeVar("T")
NO_INFLUENCE = (
    "the gradient of the loss is 0 at every one of them: the loss does not depend on attention"
)


def accumulated(inputs: RankerInputs, unit: str) -> dict[Head, float]:
    """The absolute gate gradients, summed over all units."""
    sums: dict[SiteKey, Tensor] = {}
    running: dict[SiteKey, Tensor] = {}
    with open_gates(inputs.model, per_token=unit == "per_token") as gates:
        for batch, gradients in gates.of_batches(inputs):
            for key, gradient in gradients.items():
                if unit in ("per_batch", "cumulative"):
                    gradient = (_shares(batch, gradient) @ gradient)[None]
                if unit == "cumulative":
                    gradient = running[key] = gradient + running.get(key, 0)
                value = gradient.abs().flatten(0, -2).sum(0)
                sums[key] = value if key not in sums else sums[key] + value
    return gates.by_head(sums, inputs.layout)


def estimated_rises(inputs: RankerInputs, fill: str) -> dict[Head, float]:
    """How much the mean loss of an example rises as each head closes, to first order.

    Of a probe (label_free.py), to second order: its squared gradient is the curvature of the
    distance, whose gradient is 0.
    """
    fill_of = fill_of_batches(inputs, fill)
    sums: dict[SiteKey, Tensor] = {}
    with open_gates(inputs.model, sites=_scored(inputs)) as gates:
        for batch, gradients in gates.of_batches(inputs, fill_of):
            for key, gradient in gradients.items():
                rise = gradient.square() / 2 if SEEDS in batch else -gradient
                sums[key] = sums.get(key, 0) + rise.sum(0)
    examples = sum(map(examples_of, inputs.batches))
    return {head: rise / examples for head, rise in gates.by_head(sums, inputs.layout).items()}


def integrated_rises(inputs: RankerInputs, fill: str, steps: int) -> Scores:
    """The same along the way on which all heads close together, from a gate of 1 to one of 0.

    Up to the error of `steps` points, by the rule of Gauss and Legendre, the scores add up to the
    rise of the loss when all heads are closed.
    """
    points, weights = np.polynomial.legendre.leggauss(steps)
    fill_of = fill_of_batches(inputs, fill)
    sums: dict[SiteKey, Tensor] = {}
    finite, whole, closed = FiniteLoss(), 0.0, 0.0
    with open_gates(inputs.model, sites=_scored(inputs)) as gates:
        for batch in inputs.counted():
            gates.fill = fill_of(batch)
            for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
                gates.value = float(point)
                for key, gradient in gates.gradients(inputs.model, batch, finite).items():
                    sums[key] = sums.get(key, 0) - float(weight) * wide(gradient).sum(0)
            with torch.no_grad():
                gates.value = 0.0
                closed += float(wide(gates.losses(inputs.model, batch, finite)).sum())
                gates.value = 1.0
                whole += float(wide(gates.losses(inputs.model, batch, finite)).sum())
    finite.check()
    examples = sum(map(examples_of, inputs.batches))
    scores = {head: s / examples for head, s in gates.by_head(sums, inputs.layout).items()}
    details = {
        "loss": whole / examples,
        "loss with all heads closed": closed / examples,
        "rise": (closed - whole) / examples,
        "sum of scores": sum(scores.values()),
    }
    return Scores(scores, details=details)


def products(inputs: RankerInputs) -> Tensor:
    """The mean over examples of the products of gate gradients, heads x heads, on the CPU."""
    total = torch.zeros(())
    fill_of = fill_of_batches(inputs, "zero")
    with open_gates(inputs.model, sites=_scored(inputs)) as gates:
        for batch, gradients in gates.of_batches(inputs, fill_of):
            columns = gates.of_heads({key: gradient.T for key, gradient in gradients.items()})
            none = next(iter(gradients.values())).new_zeros(examples_of(batch))
            rows = torch.stack([columns.get(head, none) for head in inputs.layout], 1)
            total = total + rows.T @ rows
    if not bool(total.any()):
        raise gates.no_gradient(NO_INFLUENCE)
    return total.cpu() / sum(map(examples_of, inputs.batches))


def _scored(inputs: RankerInputs) -> list[Site]:
    """The layers with heads to score."""
    return [site for site in find_sites(inputs.model) if columns_of(site, inputs.layout)]


def _shares(batch: Batch, like: Tensor) -> Tensor:
    """What each example weighs in the mean over the labelled tokens of its batch."""
    if LOSS in batch:
        return torch.full((examples_of(batch),), 1 / examples_of(batch)).to(like)
    labels = batch["labels"]
    labelled = (labels != IGNORED).reshape(len(labels), -1).sum(1).to(like)
    return labelled / labelled.sum().clamp(min=1)


def wide(values: Tensor) -> Tensor:
    """The values in double precision, where the device has it."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


class OpenGates:
    """Open gates at layers of a model, created during the forward pass of each batch."""

    def __init__(self, sites: Iterable[Site], per_token: bool):
        self.kept: dict[SiteKey, tuple[int, ...]] = {s.key: s.kept for s in sites if s.kept}
        self.gates: dict[SiteKey, Tensor] = {}
        self.per_token, self.examples = per_token, 0
        self.lengths: set[int] = set()  # of an example, for layers that flatten a batch
        self.fill: Fill = zero
        self.value = 1.0  # for every gate
        self.calls: Counter[SiteKey] = Counter()

    def gradients(
        self, model: nn.Module, batch: Batch, finite: FiniteLoss, weights: Tensor | None = None
    ) -> dict[SiteKey, Tensor]:
        """d loss / d gate for each layer reached: examples x (positions x) heads or neurons.

        weights: a factor for the loss of each example.
        """
        losses = self.losses(model, batch, finite)
        if not losses.requires_grad:
            cut = "the model cuts the graph between them and its logits"
            raise self.no_gradient(cut if self.gates else "their layers were not run")
        total = losses.sum() if weights is None else (losses * weights.to(losses)).sum()
        gradients = torch.autograd.grad(total, list(self.gates.values()), allow_unused=True)
        pairs = zip(self.gates, gradients, strict=True)
        return {key: gradient for key, gradient in pairs if gradient is not None}

    def losses(self, model: nn.Module, batch: Batch, finite: FiniteLoss) -> Tensor:
        """The loss of each example at the value of the gates."""
        self.gates.clear()
        self.calls.clear()
        self.examples = examples_of(batch)
        matrices = (v for v in batch.values() if isinstance(v, Tensor) and v.dim() > 1)
        self.lengths = {value.shape[1] for value in matrices}
        return finite.add(example_losses(model, batch))

    def of_batches(
        self, inputs: RankerInputs, fill_of: Callable[[Batch], Fill] = lambda batch: zero
    ) -> Iterator[tuple[Batch, dict[SiteKey, Tensor]]]:
        """Each batch with its gradients, in double precision; then an error if a loss is no number.

        fill_of: what closed heads of a batch would be filled with.
        """
        finite = FiniteLoss()
        for batch in inputs.counted():
            self.fill = fill_of(batch)
            gradients = self.gradients(inputs.model, batch, finite)
            yield batch, {key: wide(gradient) for key, gradient in gradients.items()}
        finite.check()

    def by_head(self, sums: Mapping[SiteKey, Tensor], layout: HeadLayout) -> dict[Head, float]:
        """The numbers of layers as numbers of heads; 0 for heads whose layer was not run."""
        by_head = self.of_heads({key: values.tolist() for key, values in sums.items()})
        if not any(by_head.values()):
            raise self.no_gradient(NO_INFLUENCE)
        return {head: by_head.get(head, 0.0) for head in layout}

    def of_heads(self, values: Mapping[SiteKey, Iterable[T]]) -> dict[Head, T]:
        """The values of layers, one for each head, by head."""
        return {
            Head(*key[1:], index): value
            for key, own in values.items()
            for index, value in zip(self.kept[key], own, strict=True)
        }

    def no_gradient(self, why: str) -> UnsupportedModel:
        names = [
            f"{block} layer {layer}" + (" (neurons)" if kind == "neurons" else "")
            for kind, block, layer in self.kept
        ]
        which = ", ".join(names if len(names) < 5 else [*names[:3], "...", names[-1]])
        return UnsupportedModel(
            f"no gate gets a gradient ({len(names)}: {which}), because {why}.",
            "check that the logits, or the loss, come from these layers, undetached, and that the "
            "task layer's weights are not all 0",
        )

    def at(self, site: Site) -> Any:
        """A hook that lets the context of a layer through and reads its gate's gradient."""
        key, axis = site.key, 1 if site.time_first else 0

        def let_through(context: Tensor) -> Tensor:
            if not torch.is_grad_enabled() and self.value == 1:  # such as a run that gives a fill
                return context
            if context.dim() == 2 and len(context) in (n * self.examples for n in self.lengths):
                return let_through(context.unflatten(0, (self.examples, -1))).flatten(0, 1)
            if context.dim() < 3 or context.shape[axis] != self.examples:
                raise UnsupportedModel(
                    f"{site.block} layer {site.layer} works on {tuple(context.shape[:-1])} rows "
                    f"for {self.examples} examples, so its examples cannot be separated.",
                    'use method="ablation" or "shapley", or batches of one example',
                )
            return open_gate(context, axis)

        def open_gate(context: Tensor, axis: int) -> Tensor:
            gate = self.gates.get(key)  # exists already where layers share their weights
            if gate is None:
                positions = context.transpose(0, axis).shape[1:-1] if self.per_token else ()
                precise = torch.promote_types(context.dtype, torch.float32)
                value = torch.ones((), device=context.device, dtype=precise)
                # nothing reads its values, so all of them share one place in memory
                gate = value.expand(self.examples, *positions, len(site.kept)).requires_grad_()
                self.gates[key] = gate
            if is_repeated():  # layers that share weights run again from the last to the first
                self.calls[key] -= 1
            filling, difference = self.fill(site, self.calls[key]), context.detach()
            if not is_repeated():
                self.calls[key] += 1
            if isinstance(filling, Tensor):
                filling = batch_first(site, filling).to(context)
                difference = difference - filling.detach()
            if self.value != 1:
                context = self.value * context + (1 - self.value) * filling
            return _Open.apply(context, difference, gate, site.width, axis)

        return let_through


class _Open(torch.autograd.Function):
    """A gate whose value counts already: the forward pass is known, the backward pass reads it."""

    @staticmethod
    def forward(
        ctx: Any, context: Tensor, difference: Tensor, gate: Tensor, width: int, axis: int
    ) -> Tensor:
        """difference: the context less the fill."""
        ctx.save_for_backward(difference)
        ctx.width, ctx.axis, ctx.shape, ctx.sum_type = width, axis, gate.shape, gate.dtype
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, None, Tensor, None, None]:
        (difference,), (grad,) = ctx.saved_tensors, arriving
        # examples x positions.. x units x width
        product = (difference * grad).transpose(0, ctx.axis).unflatten(-1, (-1, ctx.width))
        axes = [-1] if len(ctx.shape) > 2 else [*range(1, product.dim() - 2), -1]
        read = product.sum(axes, dtype=ctx.sum_type)
        return (grad if ctx.needs_input_grad[0] else None), None, read, None, None


@contextmanager
def open_gates(
    model: nn.Module, per_token: bool = False, sites: Sequence[Site] | None = None
) -> Iterator[OpenGates]:
    """Attach gates to read gradients from, and remove them afterwards; by default to all heads."""
    sites = find_sites(model) if sites is None else sites
    gates = OpenGates(sites, per_token)
    with ExitStack() as stack:
        for site in sites:
            if site.kept:
                stack.callback(attach(site, gates.at(site)))
        with gated(model):  # adds no gate, but makes a compiled model check its hooks again
            yield gates
