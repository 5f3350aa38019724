"""The set that costs least together: against enumeration, greedy alone, and on 144 heads."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deadhead.rankers.fisher import greedy
from deadhead.shrinking.search import cheapest_set, swapped


def fisher(seed, units):
    """A Fisher matrix of a few examples, with units that repeat and oppose each other."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(draw.integers(2, 30), units)) * draw.exponential(size=units)
    rows += draw.normal() * draw.normal(size=units)
    return rows.T @ rows / len(rows)


def cost(matrix, removed):
    return float(removed @ matrix @ removed)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.data())
def test_swaps_never_make_the_greedy_set_worse(seed, units, data):
    matrix, count = fisher(seed, units), data.draw(st.integers(1, units))
    removed = cheapest_set(matrix, np.ones(units), count)
    assert removed.sum() == count
    assert cost(matrix, removed) <= greedy(matrix)[1][count - 1] * (1 + 1e-9) + 1e-12


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.data())
def test_prices_are_paid_in_full_and_nothing_beyond_them_goes_in_vain(seed, units, data):
    matrix = fisher(seed, units)
    prices = np.array(data.draw(st.lists(st.integers(1, 5), min_size=units, max_size=units))) * 1.0
    total = data.draw(st.floats(0.1, 1.0)) * prices.sum()
    removed = cheapest_set(matrix, prices, total)
    assert prices[removed].sum() >= total * (1 - 1e-9)
    for number in np.flatnonzero(removed):
        fewer = removed.copy()
        fewer[number] = False
        if prices[fewer].sum() >= total:
            assert cost(matrix, fewer) >= cost(matrix, removed) * (1 - 1e-9) - 1e-9


def test_labels_keep_the_number_of_each_layer():
    labels = np.repeat(np.arange(4), 6)
    matrix = np.where(np.equal.outer(labels, labels), fisher(3, 24), 0.0)
    start = np.zeros(24, dtype=bool)
    start[[0, 1, 2, 7, 12, 13]] = True
    removed = swapped(matrix, start, labels=labels)
    assert removed.reshape(4, 6).sum(1).tolist() == start.reshape(4, 6).sum(1).tolist()
    assert cost(matrix, removed) < cost(matrix, start)
    assert matrix[0, 6] == 0
    assert matrix[0, 5] != 0


def test_opposite_units_leave_together():
    """Each alone costs 1, both together nothing: the diagonal cannot know."""
    rows = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.5]])
    removed = cheapest_set(rows.T @ rows / 2, np.ones(3), 2)
    assert removed.tolist() == [True, True, False]
