"""Losses that need no labels: a function of the user's, or how far the model is from what it says itself.

`loss="self"` asks how much of the whole model's output is lost without a head. That output is the logits,
and the distance their KL divergence; or, where there are none (embedding models), the last hidden states
of the tokens, and the distance their squared difference as a share of their squared length.

Ablation, Shapley values and L0 gates close heads and measure that distance as it is. Gradients cannot: with
every gate open the distance is 0 and lowest, so its gradient is 0 at every head. What is not 0 is its
curvature, the squared size of d output / d gate, and gradients measure that through a `Probe`: the output
times random directions v. The gradient of v * output is v * (d output / d gate), whose mean square over
v is that curvature: for hidden states v is normal, for logits it comes of labels drawn from the model's own
prediction (Fisher information). So the score is how far the output moves, to first order, as the gate closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.errors import DataError, DeadheadError, UnsupportedModel, unknown_name

from .loss import LOSS, SEEDS, TARGET, answer, examples_of, on_device, output_of, positions_of

Loss = Callable[
    [Any, Mapping[str, Any]], Tensor
]  # of what the model said and the batch: one number per example
BY_GRADIENT, BY_ATTENTION, BY_LABELS = ("gradient", "taylor"), ("entropy", "confidence"), ("lrp",)
DRAWS = 4  # probes of every example
Batch = Mapping[str, Any]


def check_loss(method: str, loss: Loss | str | None, options: dict[str, Any]) -> None:
    """An error where a method cannot work with this loss; a measure that was left open becomes the loss."""
    if loss is None:
        return
    if isinstance(loss, str) and loss != "self":
        raise unknown_name("loss", loss, ("self",))
    if not callable(loss) and loss != "self":
        raise DeadheadError(
            f"loss is {type(loss).__name__}.", 'give "self" or a function of (outputs, batch)'
        )
    if method in BY_ATTENTION:
        raise DeadheadError(
            f"{method} looks at attention alone and uses no loss.",
            "leave the loss out: it needs no labels either",
        )
    if method in BY_LABELS:
        raise DeadheadError(
            f"{method} explains the logit of a class and uses no loss.",
            "rank by taylor, ablation, shapley or l0",
        )
    if method in ("shapley", "ablation") and options.setdefault("measure", "loss") == "accuracy":
        raise DeadheadError(
            "measure=accuracy needs labels, not a loss.",
            "leave the measure out, or give measure=loss",
        )
    if (
        loss == "self"
        and method in BY_GRADIENT
        and options.get("unit") in ("per_batch", "cumulative")
    ):
        raise DeadheadError(
            f"unit={options['unit']} adds up gradients before it takes their size, and those of a probe have random signs.",
            "leave the unit out, or give per_example or per_token",
        )


def with_loss(
    model: nn.Module, batches: Sequence[Batch], method: str, loss: Loss | str, seed: int
) -> list[Batch]:
    """The batches, each with the loss that it is measured by; while all gates are open that should be."""
    if callable(loss):
        found: list[Batch] = [{**batch, LOSS: Own(loss)} for batch in batches]
        with torch.no_grad():
            first: dict[str, Any] = dict(on_device(found[0], model))
            first[LOSS](answer(model, first), first)  # a mistake in it should cost no time
        return found
    if method in BY_GRADIENT:
        _outputs(model, batches[:1])
        return list(_probed(batches, seed))
    return [
        {**batch, LOSS: distance, TARGET: output}
        for batch, output in zip(batches, _outputs(model, batches), strict=True)
    ]


@torch.no_grad()
def _outputs(model: nn.Module, batches: Iterable[Batch]) -> list[Tensor]:
    """What the model says of every batch with all gates open."""
    found = []
    for batch in batches:
        said = answer(model, on_device(batch, model))
        output = output_of(said)
        if output is None:
            raise UnsupportedModel(
                f"{type(model).__name__} answers with neither logits nor hidden states.",
                "give a loss of your own: loss=function of (outputs, batch)",
            )
        found.append(output.detach().cpu())
    return found


def _probed(batches: Sequence[Batch], seed: int) -> Iterable[Batch]:
    """Every batch several times, every example with the seed of directions of its own."""
    number = seed << 32
    for batch in batches:
        for _ in range(DRAWS):
            examples = examples_of(batch)
            yield {**batch, LOSS: probe, SEEDS: torch.arange(number, number + examples)}
            number += examples


class Own:
    """The user's function, checked: one number per example."""

    def __init__(self, function: Loss):
        self.function = function

    def __call__(self, said: Any, batch: Batch) -> Tensor:
        losses = self.function(said, batch)
        examples = examples_of(batch)
        if (
            not isinstance(losses, Tensor)
            or losses.shape != (examples,)
            or not losses.is_floating_point()
        ):
            got = (
                f"a tensor of shape {tuple(losses.shape)}, {losses.dtype}"
                if isinstance(losses, Tensor)
                else type(losses).__name__
            )
            raise DataError(
                f"the loss function gave {got} for a batch of {examples} examples.",
                f"return one number per example, a float tensor of shape ({examples},)",
            )
        return losses


def distance(said: Any, batch: Batch) -> Tensor:
    """How far each example is from what the whole model said of it."""
    output, target, real = (
        _precise(output_of(said)),
        _precise(batch[TARGET]),
        positions_of(said, batch),
    )
    if hasattr(said, "logits"):
        each = F.kl_div(
            output.log_softmax(-1), target.log_softmax(-1), reduction="none", log_target=True
        ).sum(-1)
    else:
        each = (output - target).square().sum(-1) / target.square().sum(-1).clamp(min=1e-12)
    return each if real is None else (each * real).sum(1) / real.sum(1).clamp(min=1)


def probe(said: Any, batch: Batch) -> Tensor:
    """The output of each example along random directions, scaled so that its squared gradient is the distance's curvature."""
    output, real = _precise(output_of(said)), positions_of(said, batch)
    draws = [torch.Generator().manual_seed(int(one)) for one in batch[SEEDS]]
    if hasattr(said, "logits"):
        chances = output.detach().softmax(-1).cpu()
        drawn = torch.stack(
            [_labels(one, draw) for one, draw in zip(chances, draws, strict=True)]
        ).to(output.device)
        each = -output.log_softmax(-1).gather(-1, drawn[..., None])[..., 0]
        return each if real is None else (each * real).sum(1) / real.sum(1).clamp(min=1).sqrt()
    directions = torch.stack([torch.randn(output.shape[1:], generator=draw) for draw in draws]).to(
        output
    )
    if real is not None:
        directions = directions * real[..., None]
    size = (output.detach() * (1 if real is None else real[..., None])).flatten(1).norm(dim=1)
    return (directions * output).flatten(1).sum(1) / size.clamp(min=1e-12)


def _labels(chances: Tensor, draw: torch.Generator) -> Tensor:
    """A class drawn at each position of one example."""
    return torch.multinomial(chances.reshape(-1, chances.shape[-1]), 1, generator=draw).reshape(
        chances.shape[:-1]
    )


def _precise(output: Any) -> Tensor:
    found: Tensor = output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    return found
