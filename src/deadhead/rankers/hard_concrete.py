"""Hard-concrete gates (Louizos et al. 2018) and their training.

The formulas are those of Voita et al. 2019. A gate is random between 0 and 1 and often exactly 0
or 1. Its parameter is log a.
"""

import copy
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from deadhead.forward import device_of
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.layout import Head

from .loss import FiniteLoss, example_losses
from .ranker import RankerInputs

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # the sigmoid is stretched to this range, then clipped to 0..1
EDGE = 1e-6


def sampled(log_a: Tensor, noise: Tensor) -> Tensor:
    """A random gate for each head, from noise that is uniform on 0..1."""
    noise = noise.clamp(EDGE, 1 - EDGE)
    logit = noise.log() - (1 - noise).log() + log_a
    return (torch.sigmoid(logit / TEMPERATURE) * (HIGH - LOW) + LOW).clamp(0, 1)


def chance_open(log_a: Tensor) -> Tensor:
    """P(gate != 0)."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-LOW / HIGH)).clamp(EDGE, 1 - EDGE)


def settled_gate(log_a: Tensor) -> Tensor:
    """The gate without its noise, as used in evaluation. It does not depend on the temperature."""
    return (torch.sigmoid(log_a) * (HIGH - LOW) + LOW).clamp(0, 1)


def train_gates(
    inputs: RankerInputs,
    *,
    penalty: float,
    start: float,
    steps: int,
    gate_rate: float,
    weight_rate: float | None,
) -> tuple[Tensor, float]:
    """Log a of each head of the layout, in its order, and the last epoch's task loss.

    penalty: on the sum of the chances that gates are open. start: log a at first.
    weight_rate: with one, a copy of the model's weights is trained too.
    """
    model, layout, batches, seed = inputs.model, inputs.layout, inputs.batches, inputs.seed
    shut: list[Head] = []
    if weight_rate is not None:  # a copy has no gates, so its closed heads must be closed again
        shut = [head for head in discover(model) if head not in layout]
        model = copy.deepcopy(model).train().requires_grad_(True)
    device = device_of(model)
    # whatever the default precision is: it would draw other noise and order the heads differently
    exact = torch.float32
    log_a = torch.full((len(layout),), start, dtype=exact, device=device, requires_grad=True)
    groups: list[dict[str, Any]] = [{"params": [log_a], "lr": gate_rate, "weight_decay": 0.0}]
    if weight_rate is not None:
        weights = list(model.parameters())
        groups.append({"params": weights, "lr": weight_rate, "weight_decay": 0.01})
    optimizer = torch.optim.AdamW(groups)
    noise = torch.Generator().manual_seed(seed)
    finite, losses = FiniteLoss(), []
    torch.manual_seed(seed)  # for dropout, where the weights are trained
    for step, number in enumerate(itertools.islice(_endless(len(batches), seed), steps)):
        gates = sampled(log_a, torch.rand(len(layout), generator=noise, dtype=exact).to(device))
        with gated(model, dict(zip(layout, gates, strict=True)), closed=shut):
            loss = finite.add(example_losses(model, batches[number]), number).mean()
            optimizer.zero_grad()
            (loss + penalty * chance_open(log_a).sum()).backward()
        optimizer.step()
        losses.append(loss.detach())
        if step % 10 == 9 or step == steps - 1:  # reading a number stops the device
            left = int((settled_gate(log_a.detach()) > 0).sum())
            inputs.progress(step + 1, steps, f"{left} of {len(log_a)} heads open")
    finite.check()
    return log_a.detach().cpu(), float(torch.stack(losses[-len(batches) :]).mean())


def _endless(count: int, seed: int) -> Iterator[int]:
    """The numbers of the batches over and over, each time in another order."""
    rng = random.Random(seed)
    while True:
        yield from rng.sample(range(count), count)
