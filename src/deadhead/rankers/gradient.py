"""Gradient and Taylor scores: how much would the loss change if a head's gate closed a little?

d loss / d gate is, for a gate that stands open, the sum over positions of context times the gradient
arriving there, so the gate need not multiply anything: it lets the context through and reads its
score on the way back. With an axis for the batch, one backward pass gives the value of every example
by itself, and as the weights are frozen, no gradient is computed but those the gates need.
Where the absolute value is taken (the `unit`) changes the ranking, and papers differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel, unknown_name
from deadhead.heads.discover import find_sites
from deadhead.heads.gates import attach, gated
from deadhead.heads.sites import Site
from deadhead.layout import Head, HeadLayout
from deadhead.ranking.scores import spread, unit_layers

from . import Progress, Scores
from .loss import IGNORED, LOSS, FiniteLoss, attended, example_losses, examples_of, task_of

UNITS = ("per_example", "per_batch", "per_token", "cumulative")
DIVISORS = ("auto", "sentences", "tokens")
Place = tuple[str, int]


@dataclass(frozen=True)
class Gradient:
    """The mean absolute gradient of the loss at a head's gate (Ma et al.)."""

    unit: str = "per_example"  # of UNITS: what the absolute value is taken of
    normalize: bool = True  # divide by the L2 norm of the layer
    rescale: bool = True  # then spread over 0 to 1

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise unknown_name("unit", self.unit, UNITS)

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        sums, _, tokens = accumulated(model, layout, batches, self.unit, progress)
        raw = {head: value / tokens for head, value in sums.items()}
        return Scores(_finished(raw, self.normalize, self.rescale), raw)


@dataclass(frozen=True)
class Taylor:
    """First-order estimate of the loss without the head (Michel et al.), as in their released code.

    With `unit="per_example", last_layer="tokens"` it is `Gradient` before normalisation.
    """

    unit: str = "per_token"  # of UNITS
    last_layer: str = "auto"  # what the last layer is divided by: `auto` is sentences where only one position is classified
    normalize: bool = False
    rescale: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise unknown_name("unit", self.unit, UNITS)
        if self.last_layer not in DIVISORS:
            raise unknown_name("divisor", self.last_layer, DIVISORS)

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        sums, examples, tokens = accumulated(model, layout, batches, self.unit, progress)
        one_position = task_of(model, batches[0]) == "classify" and self.unit == "per_token"
        by_sentences = self.last_layer == "sentences" or (
            self.last_layer == "auto" and one_position
        )
        last = _last_places(layout) if by_sentences else set()
        raw = {
            head: value / (examples if head[:2] in last else tokens) for head, value in sums.items()
        }
        return Scores(_finished(raw, self.normalize, self.rescale), raw)


def _finished(raw: dict[Head, float], normalize: bool, rescale: bool) -> dict[Head, float]:
    scores = unit_layers(raw) if normalize else raw
    return spread(scores) if rescale else scores


def _last_places(layout: HeadLayout) -> set[Place]:
    """The layers right below the task layer: the top of the decoder where there is one, else of the only stack."""
    blocks = [b for b in layout.blocks if b in ("decoder", "cross")] or list(layout.blocks)
    return {(b, layout.of(b)[-1].layer) for b in blocks}


def accumulated(
    model: nn.Module,
    layout: HeadLayout,
    batches: Sequence[Mapping[str, Tensor]],
    unit: str,
    progress: Progress,
) -> tuple[dict[Head, float], int, int]:
    """The absolute gate gradients summed over all units, and the numbers of examples and tokens they came from."""
    device = next(model.parameters()).device
    precise = torch.float32 if device.type == "mps" else torch.float64
    sums: dict[Place, Tensor] = {}
    running: dict[Place, Tensor] = {}
    finite = FiniteLoss()
    with open_gates(model, per_token=unit == "per_token") as gates:
        for number, batch in enumerate(batches):
            for place, gradient in _gradients(model, batch, gates, finite).items():
                gradient = gradient.to(precise)
                if unit in ("per_batch", "cumulative"):
                    gradient = (_shares(batch, gradient) @ gradient)[None]
                if unit == "cumulative":
                    gradient = running[place] = gradient + running.get(place, 0)
                value = gradient.abs().flatten(0, -2).sum(0)
                sums[place] = value if place not in sums else sums[place] + value
            progress(number + 1, len(batches))
    finite.check()
    found = {
        Head(*place, index): value
        for place, values in sums.items()
        for index, value in zip(gates.kept[place], values.tolist(), strict=True)
    }
    if not any(found.values()):
        raise _no_gradient(
            gates,
            "the gradient of the loss is 0 at every one of them: the loss does not depend on attention",
        )
    examples, tokens = (
        sum(count)
        for count in zip(*((examples_of(b), int(attended(b).sum())) for b in batches), strict=True)
    )
    return {head: found.get(head, 0.0) for head in layout}, examples, tokens


def _shares(batch: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """What each example weighs in the mean over the labelled tokens of its batch."""
    if LOSS in batch:
        return torch.full((examples_of(batch),), 1 / examples_of(batch)).to(like)
    labels = batch["labels"]
    labelled = (labels != IGNORED).reshape(len(labels), -1).sum(1).to(like)
    return labelled / labelled.sum().clamp(min=1)


def _gradients(
    model: nn.Module, batch: Mapping[str, Tensor], gates: OpenGates, finite: FiniteLoss
) -> dict[Place, Tensor]:
    """d loss / d gate for each attention layer reached: examples x heads, or examples x positions x heads."""
    gates.begin(examples_of(batch))
    losses = finite.add(example_losses(model, batch))
    if not losses.requires_grad:
        raise _no_gradient(
            gates,
            "their layers were not run"
            if not gates.gates
            else "the model cuts the graph between them and its logits",
        )
    found = torch.autograd.grad(losses.sum(), list(gates.gates.values()), allow_unused=True)
    return {
        place: gradient
        for place, gradient in zip(gates.gates, found, strict=True)
        if gradient is not None
    }


def _no_gradient(gates: OpenGates, why: str) -> UnsupportedModel:
    names = [f"{block} layer {layer}" for block, layer in gates.kept]
    which = ", ".join(names if len(names) < 5 else [*names[:3], "...", names[-1]])
    return UnsupportedModel(
        f"no gate gets a gradient ({len(names)}: {which}), because {why}.",
        "see that the logits, or the loss, come from these layers, undetached, and that the task layer's weights are not all 0",
    )


class OpenGates:
    """Gates that stand open at every attention layer, made as the forward pass comes by. `begin` each batch anew."""

    def __init__(self, found: list[Site], per_token: bool):
        self.kept: dict[Place, tuple[int, ...]] = {
            (s.block, s.layer): s.kept for s in found if s.kept
        }
        self.gates: dict[Place, Tensor] = {}
        self.per_token, self.examples = per_token, 0

    def begin(self, examples: int) -> None:
        self.gates.clear()
        self.examples = examples

    def at(self, site: Site) -> Any:
        """What lets the context of a layer through, and has its gate's gradient read on the way back."""
        place, axis = (site.block, site.layer), 1 if site.time_first else 0

        def let_through(context: Tensor) -> Tensor:
            if context.dim() < 3 or context.shape[axis] != self.examples:
                raise UnsupportedModel(
                    f"{site.block} layer {site.layer} works on {tuple(context.shape[:-1])} rows for {self.examples} examples, "
                    "so what it says cannot be told apart by example.",
                    'use method="ablation" or "shapley", or batches of one example',
                )
            gate = self.gates.get(place)  # there already where layers share their weights
            if gate is None:
                positions = context.transpose(0, axis).shape[1:-1] if self.per_token else ()
                gate = torch.ones(
                    self.examples,
                    *positions,
                    len(site.kept),
                    device=context.device,
                    dtype=_sum_type(context),
                    requires_grad=True,
                )
                self.gates[place] = gate
            return _Open.apply(context, gate, site.width, axis)

        return let_through


def _sum_type(context: Tensor) -> torch.dtype:
    return torch.float32 if context.dtype in (torch.float16, torch.bfloat16) else context.dtype


class _Open(torch.autograd.Function):
    """Multiplication by a gate of ones, with only the part of it that is not known beforehand."""

    @staticmethod
    def forward(ctx: Any, context: Tensor, gate: Tensor, width: int, axis: int) -> Tensor:
        ctx.save_for_backward(context)
        ctx.width, ctx.axis, ctx.shape, ctx.sum_type = width, axis, gate.shape, gate.dtype
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        (context,), (grad,) = ctx.saved_tensors, arriving
        product = (
            (context * grad).transpose(0, ctx.axis).unflatten(-1, (-1, ctx.width))
        )  # examples x positions.. x heads x width
        if len(ctx.shape) > 2:
            read = product.sum(-1, dtype=ctx.sum_type)
        else:
            read = product.sum([*range(1, product.dim() - 2), -1], dtype=ctx.sum_type)
        return (grad if ctx.needs_input_grad[0] else None), read, None, None


@contextmanager
def open_gates(model: nn.Module, per_token: bool = False) -> Iterator[OpenGates]:
    """Gates to read gradients from, hung into the model and taken out again."""
    found = find_sites(model)
    gates = OpenGates(found, per_token)
    with ExitStack() as stack:
        for site in found:
            if site.kept:
                stack.callback(attach(site, gates.at(site)))
        with gated(model):  # no gate of its own; it has a compiled model look at its hooks again
            yield gates
