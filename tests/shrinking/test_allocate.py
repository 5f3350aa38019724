"""How many units each layer loses: against enumeration, and on curves with thousands of units."""

from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadhead.errors import DeadheadError
from deadhead.layout import HeadLayout
from deadhead.shrinking import Budget, Curve, allocate, removal, units_of
from deadhead.shrinking.allocate import in_order_of_cost


def curve(layer, steps, kind="heads"):
    units = tuple((number,) for number in range(len(steps)))
    costs = tuple(accumulate(steps))
    return Curve((kind, "encoder", layer), units, costs)


def totals(curves, saving, counts):
    cost = sum((0.0, *c.costs)[counts[c.place]] for c in curves)
    return cost, sum(saving[c.place][counts[c.place]] for c in curves)


numbers = st.integers(0, 20).map(lambda n: n / 4)


@st.composite
def problems(draw):
    """Up to four layers with any non-decreasing costs and any tables, also ones that fall."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    curves = [
        curve(n, draw(st.lists(numbers, min_size=s, max_size=s))) for n, s in enumerate(sizes)
    ]
    saving = {
        c.place: [0.0, *draw(st.lists(numbers, min_size=len(c.units), max_size=len(c.units)))]
        for c in curves
    }
    most = sum(map(max, saving.values()))
    return curves, saving, draw(st.integers(0, 8)) / 8 * most


@settings(max_examples=200, deadline=None)
@given(problems())
def test_it_finds_the_cheapest_of_all_allocations(problem):
    curves, saving, total = problem
    counts = allocate(curves, saving, total)
    cost, saved = totals(curves, saving, counts)
    assert saved >= total - 1e-6
    ranges = (range(len(c.units) + 1) for c in curves)
    places = [c.place for c in curves]
    every = [totals(curves, saving, dict(zip(places, n, strict=True))) for n in product(*ranges)]
    assert cost == pytest.approx(min(c for c, s in every if s >= total - 1e-9))


def test_thousands_of_units_are_nearly_as_cheap_as_fractions_of_units_would_be():
    draw = np.random.default_rng(0)
    curves = [curve(n, sorted(draw.exponential(size=12))) for n in range(6)]
    curves += [curve(n, sorted(draw.exponential(size=3000) / 50), "neurons") for n in range(6)]
    price = {"heads": 3.0, "neurons": 0.02}
    saving = {c.place: [price[c.place[0]] * n for n in range(len(c.units) + 1)] for c in curves}
    total = 0.6 * sum(table[-1] for table in saving.values())
    cost, saved = totals(curves, saving, allocate(curves, saving, total))
    assert saved >= total - 1e-6
    ratios = sorted(
        (step / price[c.place[0]], step, price[c.place[0]])
        for c in curves
        for step in np.diff((0.0, *c.costs))
    )
    reached = np.cumsum([p for _, _, p in ratios])
    whole = int((reached <= total).sum())
    lowest = sum(step for _, step, _ in ratios[:whole]) + ratios[whole][0] * (
        total - (reached[whole - 1] if whole else 0)
    )
    assert lowest - 1e-9 <= cost < lowest * 1.001


def test_scores_go_by_one_threshold_until_the_budget_is_reached():
    curves = [curve(0, [1.0, 4.0, 6.0]), curve(1, [2.0, 3.0, 9.0])]
    saving = {c.place: [0.0, 1.0, 2.0, 3.0] for c in curves}
    assert in_order_of_cost(curves, saving, 4) == {curves[0].place: 2, curves[1].place: 2}
    assert in_order_of_cost(curves, saving, 0) == {curves[0].place: 0, curves[1].place: 0}


def test_the_budget_of_a_removal_counts_heads_in_whole_groups():
    layout = HeadLayout.grid(encoder=(2, 4))
    assert units_of(layout)["heads", "encoder", 1] == ((0,), (1,), (2,), (3,))
    budget = removal(layout, "heads", 6)
    assert budget.saving["heads", "encoder", 0] == (0.0, 1.0, 2.0, 3.0, 4.0)
    assert (budget.total, budget.whole) == (6.0, 8.0)


def test_a_budget_that_cannot_be_met_names_the_smallest_possible():
    place = ("heads", "encoder", 0)
    Budget(saving={place: [0, 1, 3]}, total=3, whole=10, name="MACs").check()
    with pytest.raises(DeadheadError, match="at least 7 of 10 MACs, got 6") as error:
        Budget(saving={place: [0, 1, 3]}, total=4, whole=10, name="MACs").check()
    assert "0.7 of the whole" in (error.value.hint or "")
