"""Shapley values of heads: what each adds to the score, averaged over the orders in which heads may go.

The value v(S) of a set of heads is the score on the data with only those open. In a random order heads
are closed one after the other, from the full model downwards; a head's marginal is what is lost when it
goes. A head is settled once the lower bound of its mean (empirical Bernstein) shows that it is not
harmful. This is the truncated Monte-Carlo walk of Held and Yang (2023), with its bound put right.

A head comes once in an order, so settling it changes nothing before the next order: all sets of one
walk are known beforehand, and are evaluated many to a forward pass, a copy of the batch for each.
Reusing lower layers that no closed gate touches would not pay here: the lowest layer with a closed head
falls so fast on such a walk that of 12 layers of 12 heads only 3 % of the work could be shared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deadhead.errors import DeadheadError, unknown_name
from deadhead.heads.gates import gated
from deadhead.layout import Head, HeadLayout

from . import Progress, Scores
from .loss import (
    IGNORED,
    LOSS,
    FiniteLoss,
    answer,
    examples_of,
    losses_of,
    losses_said,
    on_device,
    task_of,
)

MEASURES = ("accuracy", "loss")

Closed = frozenset[Head]
Value = Callable[
    [Sequence[Closed]], list[float]
]  # of the model with these heads closed, for each set


@dataclass(frozen=True)
class Shapley:
    """Score a head by its mean marginal contribution, in points of accuracy (or in loss).

    `permutations` is the budget; Held and Yang spent 3000, with a limit of 1000 (tagging) or 5000 (XNLI) samples a head.
    """

    permutations: int = 100
    measure: str = (
        "accuracy"  # over labelled positions; or "loss": the negative mean loss of the examples
    )
    truncation: float = (
        0.5  # a walk ends when no more than this share of the heads is open; 0 walks to the end
    )
    limit: int = 1000  # samples after which a head is settled in any case
    tolerance: float = (
        0.01  # a head is settled when the lower bound of its mean lies above minus this
    )
    delta: float = 0.1  # how often the bound may be wrong
    span: float = 1.0  # the range of a marginal: 1 for accuracies
    as_released: bool = (
        False  # the bound of the released code, which divides by n outside of the root: too tight
    )
    rows_per_pass: int | None = (
        None  # examples x sets of heads in one forward pass; by itself 1024 on a GPU and 64 on a CPU
    )

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise unknown_name("measure", self.measure, MEASURES)
        if min(self.permutations, self.limit, self.rows_per_pass or 1) < 1:
            raise DeadheadError(
                "permutations, limit and rows_per_pass of shapley are counts from 1 up.",
                "give permutations=100, for instance",
            )
        for name, share in (("delta", self.delta), ("truncation", self.truncation)):
            if not 0 <= share < 1 or (name == "delta" and not share):
                raise DeadheadError(
                    f"{name} of shapley is a share of 1; met {share}.",
                    f"give {name}=0.1, for instance",
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
        if self.truncation and len(layout) - 1 <= self.truncation * len(layout):
            raise DeadheadError(
                f"with truncation={self.truncation} a walk over {len(layout)} heads ends before it closes one.",
                "give a smaller share, or 0 to walk to the end",
            )
        value = ModelValue(model, layout, batches, self.measure, self.rows_per_pass)
        walks = walk(self, list(layout), value, orders(list(layout), seed), progress)
        bounds = {head: self.bound(found) for head, found in walks.samples.items()}
        details = {
            "permutations": walks.walked,
            "full": walks.full,
            "samples": {str(head): found.count for head, found in walks.samples.items()},
            "bounds": {
                str(head): bound if math.isfinite(bound) else None for head, bound in bounds.items()
            },
            "settled": [str(head) for head in layout if head in walks.settled],
        }
        return Scores({head: found.mean for head, found in walks.samples.items()}, details=details)

    def bound(self, found: Samples) -> float:
        """Half the width of the interval that holds the mean (empirical Bernstein); infinite below two samples."""
        n = found.count
        if n < 2:
            return math.inf
        log = math.log(3 / self.delta)
        spread = found.deviation * (
            math.sqrt(2 * log) / n if self.as_released else math.sqrt(2 * log / n)
        )
        return spread + 3 * self.span * log / n


@dataclass
class Samples:
    """The marginals of one head so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, marginal: float) -> None:
        self.count, self.total, self.squares = (
            self.count + 1,
            self.total + marginal,
            self.squares + marginal**2,
        )

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.squares / self.count - self.mean**2))


@dataclass
class Walks:
    """What the walks found."""

    full: float  # v(all)
    samples: dict[Head, Samples]
    settled: set[Head] = field(default_factory=set)
    walked: int = 0


def orders(heads: list[Head], seed: int) -> Iterator[list[Head]]:
    """Random orders without end."""
    rng = random.Random(seed)
    while True:
        yield rng.sample(heads, len(heads))


def walk(
    options: Shapley,
    heads: list[Head],
    value: Value,
    orders: Iterable[list[Head]],
    progress: Progress,
) -> Walks:
    """Walk down order after order until the budget is spent or every head is settled; knows no model.

    Should the budget leave a head without any sample, walks go on until it has one.
    """
    (full,) = value([frozenset()])
    found = Walks(full, {head: Samples() for head in heads})
    for order in orders:
        steps = [
            (head, before)
            for head, before in _steps(order, options.truncation)
            if head not in found.settled
        ]
        if found.walked >= options.permutations:  # only to reach the heads without a sample
            steps = [(head, before) for head, before in steps if not found.samples[head].count]
        wanted = dict.fromkeys(s for head, before in steps for s in (before, before | {head}) if s)
        values = {
            frozenset(): full,
            **dict(zip(wanted, value(list(wanted)) if wanted else [], strict=True)),
        }
        for head, before in steps:
            mine = found.samples[head]
            mine.add(values[before] - values[before | {head}])
            if mine.mean - options.bound(mine) > -options.tolerance or mine.count > options.limit:
                found.settled.add(head)
        found.walked += 1
        widest = max(options.bound(s) for s in found.samples.values())
        note = f"widest bound {widest:.3f}, {len(found.settled)} of {len(heads)} heads settled"
        progress(min(found.walked, options.permutations), options.permutations, note)
        spent = found.walked >= options.permutations and all(
            s.count for s in found.samples.values()
        )
        if spent or len(found.settled) == len(heads):
            break
    return found


def _steps(order: Sequence[Head], truncation: float) -> Iterator[tuple[Head, Closed]]:
    """Each head of a walk with the heads that are closed when its turn comes."""
    before: Closed = frozenset()
    for head in order:
        if truncation and len(order) - len(before) - 1 <= truncation * len(order):
            return
        yield head, before
        before = before | {head}


class ModelValue:
    """v(S) of a model on the data, many sets to a forward pass."""

    def __init__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        measure: str,
        rows: int | None,
    ):
        self.model, self.layout, self.batches, self.measure = model, layout, batches, measure
        self.rows = rows or (64 if next(model.parameters()).device.type == "cpu" else 1024)
        self.row = {
            block: {a.layer: row for row, a in enumerate(layout.of(block))}
            for block in layout.blocks
        }

    @torch.no_grad()
    def __call__(self, sets: Sequence[Closed]) -> list[float]:
        total = torch.zeros(len(sets), dtype=torch.float64)
        count, finite = 0.0, FiniteLoss()
        for batch in self.batches:
            batch = on_device(batch, self.model)
            examples = examples_of(batch)
            at_once = max(1, self.rows // examples)
            for i in range(0, len(sets), at_once):
                part = sets[i : i + at_once]
                gained, of = self._measure(batch, examples, part, finite)
                total[i : i + len(part)] += gained.cpu().double()
            count += of
        finite.check()
        return [float(t) for t in total / count]

    def _measure(
        self, batch: dict[str, Tensor], examples: int, sets: Sequence[Closed], finite: FiniteLoss
    ) -> tuple[Tensor, float]:
        """The sum of what one batch is worth under each set, and how many it was summed over."""
        copies = {name: _repeated(value, examples, len(sets)) for name, value in batch.items()}
        gates = {
            block: gate.repeat_interleave(examples, 0) for block, gate in self._gates(sets).items()
        }
        with gated(self.model, gates):
            said = answer(self.model, copies)
        if LOSS in batch:
            losses = losses_said(self.model, copies, said)
            if list(sets) == [frozenset()]:
                finite.add(losses)
            return -losses.view(len(sets), examples).sum(1), float(examples)
        logits, labels, shifted = (
            said.logits,
            copies["labels"],
            task_of(self.model, copies) == "causal",
        )
        if list(sets) == [
            frozenset()
        ]:  # once, on the whole model: the largest of nan is a class like any other
            finite.add(losses_of(logits, labels, shifted=shifted))
        if self.measure == "loss":
            told = (batch["labels"].view(examples, -1)[:, int(shifted) :] != IGNORED).any(1)
            losses = losses_of(logits, labels, shifted=shifted).view(len(sets), examples)
            return -losses.sum(1), float(told.sum())
        if shifted:
            logits, labels = logits[:, :-1], labels[:, 1:]
        told = labels != IGNORED
        right = (logits.argmax(-1) == labels) & told
        return right.view(len(sets), -1).sum(1), float(told.view(len(sets), -1)[0].sum())

    def _gates(self, sets: Sequence[Closed]) -> dict[str, Tensor]:
        """Sets x layers x heads for each block, 0 where a head is closed."""
        gates = {
            b: torch.ones(len(sets), self.layout.layers(b), self.layout.size(b))
            for b in self.layout.blocks
        }
        for number, closed in enumerate(sets):
            for head in closed:
                gates[head.block][number, self.row[head.block][head.layer], head.index] = 0
        return gates


def _repeated(value: Tensor, examples: int, times: int) -> Tensor:
    """The batch once more for every set, the examples of one set side by side."""
    if isinstance(value, Tensor) and value.dim() and len(value) == examples:
        return value.repeat(times, *[1] * (value.dim() - 1))
    return value
