"""Divide a budget over layers: how many units each loses. Needs neither torch nor a model.

A unit is removed as one: a head, the heads that share a key/value head, or a neuron. A layer here
is its heads or its neurons, with a `SiteKey`. It has a curve, the predicted rise of the loss after
its first, second, ... unit is gone, and a table of what that saves. `allocate` finds the numbers of
units with the lowest sum of rises that save enough.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from deadhead.errors import DeadheadError
from deadhead.layout import HeadLayout, Kind, SiteKey

UnitIndices = tuple[int, ...]  # the numbers of the heads, or of the neuron, that go together

EXACT = 64  # units of a layer up to which every number of them is considered
COMBINATIONS = 10**6  # most combinations of the layers' numbers that are all tried
NEAR = 16  # numbers of units on both sides of the continuous solution, where there are more
STATES = 2000  # sums of costs that are kept after each layer; below that the result is exact
ROUNDING = 1e-9  # of a budget: what sums of floating-point numbers may lack


@dataclass(frozen=True)
class Curve:
    """The units of a layer in the order in which they would go.

    costs: the predicted rise of the loss after each of them is gone too; it never falls.
    """

    place: SiteKey
    units: tuple[UnitIndices, ...]
    costs: tuple[float, ...]


class Quota(NamedTuple):
    """Layers that lose the same number of units, and the numbers that they may lose."""

    places: tuple[SiteKey, ...]
    counts: tuple[int, ...]  # they rise


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The amount that a choice must save, and what each layer saves.

    saving: for each layer that may lose units, what it saves after 0, 1, 2, ... of them are gone.
    total: what all of these layers must save together.
    whole: what there is before anything goes, for messages.
    name: what is counted, such as "heads" or "parameters".
    quotas: of all these layers, if they may not lose any number of units.
    """

    saving: Mapping[SiteKey, Sequence[float]]
    total: float
    whole: float
    name: str
    quotas: tuple[Quota, ...] = ()

    @property
    def most(self) -> float:
        """The most that these layers can save together."""
        return sum(max(table, default=0.0) for table in self.tables())

    def tables(self) -> list[list[float]]:
        """What the layers of each quota, or each layer, save with every number they may lose."""
        return [
            [sum(self.saving[place][count] for place in places) for count in counts]
            for places, counts in self.possible(self.saving)
        ]

    def possible(self, saving: Mapping[SiteKey, Sequence[float]]) -> list[Quota]:
        """The quotas as far as these tables go; without any, each layer may lose any number."""
        if not self.quotas:
            return [Quota((place,), tuple(range(len(table)))) for place, table in saving.items()]
        return [
            Quota(places, tuple(n for n in counts if all(n < len(saving[p]) for p in places)))
            for places, counts in self.quotas
        ]

    @property
    def is_possible(self) -> bool:
        """Whether some choice saves enough."""
        return self.total <= self.most + ROUNDING * max(1.0, abs(self.most))

    def check(self) -> None:
        """Raise an error unless some choice saves enough."""
        if not self.is_possible:
            least = self.whole - self.most
            raise DeadheadError(
                f"expected a budget of at least {least:g} of {self.whole:g} {self.name}, "
                f"got {self.whole - self.total:g}.",
                f"the smallest possible is {least / self.whole:.3g} of the whole: leave more",
            )


def units_of(layout: HeadLayout) -> dict[SiteKey, tuple[UnitIndices, ...]]:
    """The units of each layer of a model."""
    places: dict[SiteKey, tuple[UnitIndices, ...]] = {
        a.key: tuple(tuple(h.index for h in group) for group in a.groups) for a in layout.attentions
    }
    for layer in layout.feed_forwards:
        places[layer.key] = tuple((number,) for number in layer.kept)
    return {place: units for place, units in places.items() if units}


def removal(layout: HeadLayout, kind: Kind, count: int) -> Budget:
    """The budget that removes at least `count` heads, or neurons, of a model."""
    saving = {
        place: (0.0, *accumulate(float(len(unit)) for unit in units))
        for place, units in units_of(layout).items()
        if place[0] == kind
    }
    whole = sum(table[-1] for table in saving.values())
    return Budget(saving=saving, total=float(count), whole=whole, name=kind)


Saving = Mapping[SiteKey, Sequence[float]]
Allocator = Callable[[Sequence[Curve], Saving, float], dict[SiteKey, int]]


def by_quotas(
    allocator: Allocator, curves: Sequence[Curve], saving: Saving, budget: Budget
) -> dict[SiteKey, int]:
    """Count the units that each layer loses, as an allocator does, but within the quotas.

    The layers of a quota are one layer for the allocator: its curve and its savings are their sums.
    """
    if not budget.quotas:
        return allocator(curves, saving, budget.total)
    costs = {curve.place: (0.0, *curve.costs) for curve in curves}
    merged, tables, total = [], {}, budget.total
    quotas = {quota.places[0]: quota for quota in budget.possible(saving)}
    for first, (places, counts) in quotas.items():
        cost = [sum(costs[place][count] for place in places) for count in counts]
        saved = [sum(saving[place][count] for place in places) for count in counts]
        total -= saved[0]  # the fewest that leave may be some
        merged.append(Curve(first, ((),) * (len(counts) - 1), tuple(c - cost[0] for c in cost[1:])))
        tables[first] = [value - saved[0] for value in saved]
    steps = allocator(merged, tables, total)
    return {
        place: counts[steps[first]]
        for first, (places, counts) in quotas.items()
        for place in places
    }


def allocate(
    curves: Sequence[Curve], saving: Mapping[SiteKey, Sequence[float]], total: float
) -> dict[SiteKey, int]:
    """Count the units that each layer loses, at the lowest sum of costs that saves the total.

    Exact as long as no place has more than EXACT units, or there are few COMBINATIONS, and no more
    than STATES sums of costs compete, which holds for budgets that count heads. Beyond that, only
    numbers near the solution that allows fractions compete, and sums that save nearly the same
    count as one.
    """
    costs = [np.array((0.0, *curve.costs)) for curve in curves]
    tables = [np.asarray(saving[curve.place], dtype=float) for curve in curves]
    total = total - ROUNDING * max(1.0, abs(total))
    if total <= 0:
        return dict.fromkeys((curve.place for curve in curves), 0)
    options = [np.arange(len(cost)) for cost in costs]
    sizes = [len(cost) for cost in costs]
    if max(sizes) > EXACT + 1 and prod(sizes) > COMBINATIONS:
        options = _near_the_continuous_solution(costs, tables, total)
    counts = _cheapest(costs, tables, options, total)
    return {curve.place: count for curve, count in zip(curves, counts, strict=True)}


def in_order_of_cost(
    curves: Sequence[Curve], saving: Mapping[SiteKey, Sequence[float]], total: float
) -> dict[SiteKey, int]:
    """Count the units that each layer loses if the cheapest of all layers go until it suffices.

    For methods whose costs are scores and no rises of the loss: one threshold for all layers.
    """
    counts = dict.fromkeys((curve.place for curve in curves), 0)
    steps = sorted(
        (after - before, number, curve.place)
        for number, curve in enumerate(curves)
        for before, after in zip((0.0, *curve.costs), curve.costs, strict=False)
    )
    saved = 0.0
    for _, _, place in steps:
        if saved >= total - ROUNDING * max(1.0, abs(total)):
            break
        counts[place] += 1
        saved += saving[place][counts[place]] - saving[place][counts[place] - 1]
    return counts


Arrays = list[np.ndarray]


def _cheapest(costs: Arrays, tables: Arrays, options: Arrays, total: float) -> list[int]:
    """The numbers of units with the lowest cost that save the total.

    SiteKey by place, it keeps the sums that no other sum beats in both cost and saving.
    """
    ahead = [float(t[o].max()) for t, o in zip(tables, options, strict=True)]
    cost, saved = np.zeros(1), np.zeros(1)
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    for number, option in enumerate(options):
        sums = (cost[:, None] + costs[number][option]).ravel()
        savings = np.minimum(saved[:, None] + tables[number][option], total).ravel()
        reach = np.flatnonzero(savings + sum(ahead[number + 1 :]) >= total - ROUNDING * total)
        order = reach[np.lexsort((sums[reach], -savings[reach]))]
        lower = np.concatenate(([True], sums[order][1:] < np.minimum.accumulate(sums[order])[:-1]))
        kept = order[lower]
        if len(kept) > STATES:
            cells = np.floor(savings[kept] / total * STATES)
            kept = kept[np.concatenate(([True], cells[1:] != cells[:-1]))]
        steps.append((kept // len(option), option[kept % len(option)]))
        cost, saved = sums[kept], savings[kept]
    state, counts = int(np.argmin(cost)), []
    for parents, chosen in reversed(steps):
        counts.append(int(chosen[state]))
        state = int(parents[state])
    return counts[::-1]


def _near_the_continuous_solution(costs: Arrays, tables: Arrays, total: float) -> Arrays:
    """For each layer the numbers of units worth considering.

    At a price for what is saved, each layer has a best number of its own. Bisection finds the
    price at which these save just enough.
    """

    def best(price: float) -> list[int]:
        return [int(np.argmin(c - price * t)) for c, t in zip(costs, tables, strict=True)]

    def suffices(counts: list[int]) -> bool:
        return sum(float(t[n]) for t, n in zip(tables, counts, strict=True)) >= total

    low, high = 0.0, 1e-30
    while not suffices(best(high)) and high < 1e60:
        low, high = high, high * 8
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(best(middle)) else (middle, high)
    chosen = best(high) if suffices(best(high)) else [int(np.argmax(t)) for t in tables]
    return [
        np.arange(len(cost)) if len(cost) <= EXACT + 1 else _around(less, more, len(cost))
        for cost, less, more in zip(costs, best(low), chosen, strict=True)
    ]


def _around(less: int, more: int, size: int) -> np.ndarray:
    """Numbers near two numbers, and some between them; never outside of 0 to size - 1."""
    first, last = min(less, more), max(less, more)
    near = [np.arange(n - NEAR, n + NEAR + 1) for n in (first, last)]
    between = np.linspace(first, last, EXACT).round().astype(int)
    return np.unique(np.concatenate((*near, between)).clip(0, size - 1))
