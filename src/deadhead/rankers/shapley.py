"""Shapley values of heads: what each adds to the score, averaged over orders of removing heads.

The value v(S) of a set of heads is the score on the data with only those open. In a random order,
heads are closed one after the other, from the full model downwards; a head's marginal is the loss
of value when it closes. A head is settled once the lower bound of its mean (empirical Bernstein)
shows that it is not harmful. This is the truncated Monte-Carlo walk of Held and Yang (2023), with
its bound corrected.

A head comes once in an order, so settling it changes nothing before the next order: all sets of one
walk are known beforehand, and are evaluated together in one forward pass, with a copy of the batch
for each. Reusing lower layers that no closed gate touches would not pay here: the lowest layer with
a closed head falls so fast on such a walk that of 12 layers of 12 heads only 3 % of the work could
be shared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.registry.options import Bound, Count, Share

from .ranker import HEADS, Fill, Progress, Ranker, RankerInputs, Scores

Closed = frozenset[Head]
Value = Callable[[Sequence[Closed]], list[float]]  # model's value with each set closed
Delta = Annotated[float, Bound(lambda value: 0 < value < 1, "a number between 0 and 1")]


@dataclass(frozen=True, kw_only=True)
class Shapley(Ranker):
    """Score a head by its mean marginal contribution, in points of accuracy (or in loss).

    `permutations` is the budget; Held and Yang spent 3000, with a limit of 1000 (tagging) or 5000
    (XNLI) samples a head.
    """

    permutations: Count = 100
    # accuracy of labelled positions, or the negative mean loss of the examples
    measure: Literal["accuracy", "loss"] = "accuracy"
    fill: Fill = "zero"  # what replaces a closed head: its mean is that on the ranked data
    truncation: Share = 0.5  # a walk ends when this share of the heads is open; 0 walks to the end
    limit: Count = 1000  # samples after which a head is settled in any case
    tolerance: float = 0.01  # a head is settled when the lower bound of its mean exceeds -tolerance
    delta: Delta = 0.1  # how often the bound may be wrong
    span: float = 1.0  # the range of a marginal: 1 for accuracies
    as_released: bool = False  # divide by n and not by its root, too tight, as the released code
    rows_per_pass: Count | None = None  # examples x sets; by default 1024 on a GPU, 64 on a CPU

    @property
    def passes(self) -> float:
        return HEADS * (1 - self.truncation) * self.permutations

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .set_values import SetValues

        layout = inputs.layout
        if self.truncation and len(layout) - 1 <= self.truncation * len(layout):
            raise DeadheadError(
                f"with truncation={self.truncation} a walk over {len(layout)} heads ends before it "
                "closes one.",
                "give a smaller share, or 0 to walk to the end",
            )
        value = SetValues(inputs, measure=self.measure, fill=self.fill, rows=self.rows_per_pass)
        order = orders(list(layout), inputs.seed)
        walks = walk(self, list(layout), value, order, inputs.progress)
        bounds = {head: self.bound(samples) for head, samples in walks.samples.items()}
        details = {
            "permutations": walks.walked,
            "full": walks.full,
            "samples": {str(head): samples.count for head, samples in walks.samples.items()},
            "bounds": {str(h): b if math.isfinite(b) else None for h, b in bounds.items()},
            "settled": [str(head) for head in layout if head in walks.settled],
        }
        return Scores({head: s.mean for head, s in walks.samples.items()}, details=details)

    def bound(self, samples: Samples) -> float:
        """Half the width of the interval around the mean (empirical Bernstein)."""
        n = samples.count
        if n < 2:
            return math.inf
        log = math.log(3 / self.delta)
        width = math.sqrt(2 * log) / n if self.as_released else math.sqrt(2 * log / n)
        return samples.deviation * width + 3 * self.span * log / n


@dataclass
class Samples:
    """The marginals of one head so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, marginal: float) -> None:
        self.count += 1
        self.total += marginal
        self.squares += marginal**2

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.squares / self.count - self.mean**2))


@dataclass
class Walks:
    """The results of the walks."""

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
    """Walk down order after order until the budget is spent or every head is settled.

    Should the budget leave a head without any sample, walks continue until it has one. Knows no
    model.
    """
    (full,) = value([frozenset()])
    walks = Walks(full, {head: Samples() for head in heads})
    for order in orders:
        steps = [step for step in _steps(order, options.truncation) if step[0] not in walks.settled]
        if walks.walked >= options.permutations:  # only to reach the heads without a sample
            steps = [(head, before) for head, before in steps if not walks.samples[head].count]
        sets = dict.fromkeys(s for head, before in steps for s in (before, before | {head}) if s)
        values: dict[Closed, float] = {frozenset(): full}
        if sets:
            values |= zip(sets, value(list(sets)), strict=True)
        for head, before in steps:
            samples = walks.samples[head]
            samples.add(values[before] - values[before | {head}])
            harmless = samples.mean - options.bound(samples) > -options.tolerance
            if harmless or samples.count > options.limit:
                walks.settled.add(head)
        walks.walked += 1
        widest = max(options.bound(samples) for samples in walks.samples.values())
        note = f"widest bound {widest:.3f}, {len(walks.settled)} of {len(heads)} heads settled"
        progress(min(walks.walked, options.permutations), options.permutations, note)
        sampled = all(samples.count for samples in walks.samples.values())
        spent = walks.walked >= options.permutations and sampled
        if spent or len(walks.settled) == len(heads):
            break
    return walks


def _steps(order: Sequence[Head], truncation: float) -> Iterator[tuple[Head, Closed]]:
    """Each head of a walk with the heads that are closed before it."""
    before: Closed = frozenset()
    for head in order:
        if truncation and len(order) - len(before) - 1 <= truncation * len(order):
            return
        yield head, before
        before = before | {head}
