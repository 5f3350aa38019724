"""Hard-concrete gates (L0): let the model learn, under a penalty, which heads it can do without.

Every head gets a random gate between 0 and 1 that is often exactly 0 or 1 (Louizos et al. 2018), and its
parameter log a is trained on the task's loss plus a penalty on the chance that the gate is open. The
score of a head is that chance in the end, P(gate != 0); the heads whose gate has closed for good are in
`details`, as names that `prune` takes. The formulas are those of Voita et al. 2019.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DeadheadError, unknown_name
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.layout import Head, HeadLayout

from . import Progress, Scores
from .loss import FiniteLoss, example_losses

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # the sigmoid is stretched to this range, then clipped to 0..1
EDGE = 1e-6
# "heads": the sum over all heads (the paper); "layers": the mean over attention layers of each layer's sum (their code)
SCALINGS = ("layers", "heads")


def sampled(log_a: Tensor, noise: Tensor) -> Tensor:
    """A random gate for each head, from noise that is uniform on 0..1."""
    noise = noise.clamp(EDGE, 1 - EDGE)
    stretched = (
        torch.sigmoid((noise.log() - (1 - noise).log() + log_a) / TEMPERATURE) * (HIGH - LOW) + LOW
    )
    return stretched.clamp(0, 1)


def chance_open(log_a: Tensor) -> Tensor:
    """P(gate != 0)."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-LOW / HIGH)).clamp(EDGE, 1 - EDGE)


def settled_gate(log_a: Tensor) -> Tensor:
    """The gate without its noise, as used in evaluation. The temperature plays no part in it."""
    return (torch.sigmoid(log_a) * (HIGH - LOW) + LOW).clamp(0, 1)


@dataclass(frozen=True)
class L0:
    """Score a head by the chance that its trained gate is open.

    With several penalties, each is trained from the start, and a head's score is the mean over them: what stays
    open under a harder penalty matters more. `details["runs"]` has, for each, the heads that closed.
    """

    penalty: float | Sequence[float] = 0.1  # lambda, or several of them
    scaling: str = "layers"  # what lambda multiplies: see SCALINGS
    train_weights: bool = (
        False  # train the model's weights too (a copy of them), as Voita et al. do
    )
    steps: int = 300
    gate_rate: float = 0.1  # learning rate of the gates
    weight_rate: float = 2e-5  # and of the weights
    start: float = 2.5  # log a at first: above 2.4 a gate is wholly open

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise unknown_name("scaling of the L0 penalty", self.scaling, SCALINGS)
        if self.steps < 1:
            raise DeadheadError(
                f"l0 cannot be trained for {self.steps} steps.", "give steps=300, for instance"
            )
        if not self.penalties or min(self.penalties) < 0:
            raise DeadheadError(
                f"the L0 penalty {self.penalty!r} is not a number >= 0, nor some of them.",
                "give penalty=0.1, for instance",
            )

    @property
    def penalties(self) -> list[float]:
        return (
            [float(self.penalty)]
            if isinstance(self.penalty, int | float)
            else [float(p) for p in self.penalty]
        )

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int,
        progress: Progress,
    ) -> Scores:
        penalties = self.penalties
        runs, total = [], dict.fromkeys(layout, 0.0)
        for number, penalty in enumerate(penalties):
            tell = _Tell(progress, number * self.steps, len(penalties) * self.steps, penalty)
            log_a, loss = self._train(model, layout, batches, penalty, seed, tell)
            chances, gates = (
                _by_head(chance_open(log_a), layout),
                _by_head(settled_gate(log_a), layout),
            )
            closed = [head for head in layout if gates[head] == 0]
            for head in layout:
                total[head] += chances[head] / len(penalties)
            runs.append(
                {
                    "penalty": penalty,
                    "closed": [str(h) for h in closed],
                    "open": len(layout) - len(closed),
                    "loss": loss,
                }
            )
        return Scores(total, details={"runs": runs})

    def _train(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        penalty: float,
        seed: int,
        tell: _Tell,
    ) -> tuple[Tensor, float]:
        """Train the gates; log a of each head of the layout, in its order, and the last epoch's task loss."""
        shut: list[Head] = []
        if (
            self.train_weights
        ):  # a copy is not gated, so heads that are closed in the model are closed in it again
            shut = [head for head in discover(model) if head not in layout]
            model = _trainable_copy(model)
        device = next(model.parameters()).device
        log_a = torch.full((len(layout),), self.start, device=device, requires_grad=True)
        groups: list[dict[str, Any]] = [
            {"params": [log_a], "lr": self.gate_rate, "weight_decay": 0.0}
        ]
        if self.train_weights:
            groups.append(
                {"params": list(model.parameters()), "lr": self.weight_rate, "weight_decay": 0.01}
            )
        optimizer = torch.optim.AdamW(groups)
        noise = torch.Generator().manual_seed(seed)
        share = penalty / (
            len([a for a in layout.attentions if a.kept]) if self.scaling == "layers" else 1
        )
        finite, losses = FiniteLoss(), []
        torch.manual_seed(seed)  # of dropout, where the weights are trained
        for step, number in enumerate(itertools.islice(_endless(len(batches), seed), self.steps)):
            gates = sampled(log_a, torch.rand(len(layout), generator=noise).to(device))
            with gated(model, closed=shut), gated(model, _by_block(gates, layout)):
                loss = finite.add(example_losses(model, batches[number]), number).mean()
                optimizer.zero_grad()
                (loss + share * chance_open(log_a).sum()).backward()
            optimizer.step()
            losses.append(loss.detach())
            tell(step + 1, log_a)
        finite.check()
        return log_a.detach().cpu(), float(torch.stack(losses[-len(batches) :]).mean())


class _Tell:
    """Passes on the progress of one run out of several, with how many gates are open."""

    def __init__(self, progress: Progress, before: int, total: int, penalty: float):
        self.progress, self.before, self.total, self.penalty = progress, before, total, penalty

    def __call__(self, step: int, log_a: Tensor) -> None:
        if (
            step % 10 == 0 or self.before + step == self.total
        ):  # asking the device each time would hold it up
            note = f"penalty {self.penalty:g}: {int((settled_gate(log_a.detach()) > 0).sum())} of {len(log_a)} heads open"
            self.progress(self.before + step, self.total, note)


def _trainable_copy(model: nn.Module) -> nn.Module:
    """A copy in training mode; the user's weights stay as they are."""
    return copy.deepcopy(model).train().requires_grad_(True)


def _endless(count: int, seed: int) -> Iterator[int]:
    """The numbers of the batches over and over, each time in another order."""
    rng = random.Random(seed)
    while True:
        yield from rng.sample(range(count), count)


def _by_block(gates: Tensor, layout: HeadLayout) -> dict[str, Tensor]:
    """One gate per head of the layout -> layers x heads of every block; heads that are not asked about keep theirs open."""
    found: dict[str, Tensor] = {}
    for block in layout.blocks:
        rows = {a.layer: row for row, a in enumerate(layout.of(block))}
        mine = [(n, rows[h.layer], h.index) for n, h in enumerate(layout) if h.block == block]
        if mine:
            number, row, index = (
                torch.tensor(column, device=gates.device) for column in zip(*mine, strict=True)
            )
            ones = torch.ones(
                layout.layers(block), layout.size(block), dtype=gates.dtype, device=gates.device
            )
            found[block] = ones.index_put((row, index), gates[number])
    return found


def _by_head(values: Tensor, layout: HeadLayout) -> dict[Head, float]:
    return dict(zip(layout, values.tolist(), strict=True))
