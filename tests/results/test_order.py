"""Order tests, with every way to deal the members out counted by hand."""

import pytest

from deadhead.errors import DataError
from deadhead.results.statistics import ordered


def test_by_hand():
    """{1, 2}, {4}, {5}: means 1.5 < 4 < 5, the smallest step is 1.

    12 ways to deal 1 2 4 5 out as two, one, one. The order with a smallest step of at least 1 comes
    only
    of {1,2} 4 5 (2.5, 1): {1,4} 5 .. 2 falls; {1,2} 5 4 falls; {1,4}=2.5 needs 2 and 5 above: 2 is
    not;
    {1,5}=3 with 2, 4: no; {2,4}=3 with 1: no; {2,5}, {4,5}: no. So p = 1/12.
    """
    order = ordered({"a": [1, 2], "b": [4], "c": [5]}, ("a", "b", "c"))
    assert order.holds
    assert order.margin == pytest.approx(1)
    assert order.p == pytest.approx(1 / 12)
    assert (order.means, order.n, order.how) == ({"a": 1.5, "b": 4, "c": 5}, 4, "exact")


def test_a_broken_order():
    """a 1, b 3, c 2: the steps are 2 and -1. Smallest steps: 123 1, 132 -1, 213 -1, 321 -1, 231
    -2, 312 -2: p = 4/6.
    """
    order = ordered({"a": [1], "b": [3], "c": [2]}, ("a", "b", "c"))
    assert not order.holds
    assert order.margin == pytest.approx(-1)
    assert order.p == pytest.approx(4 / 6)


def test_eleven_languages_all_ways():
    """5, 3, 1 and 2 members: 11! / (5! 3! 1! 2!) = 27,720 ways, so the clearest order has p =
    1/27,720.
    """
    groups = {"SVO": [1, 2, 3, 4, 5], "SOV": [11, 12, 13], "VSO": [20], "Agglutinative": [30, 31]}
    order = ordered(groups, ("SVO", "SOV", "VSO", "Agglutinative"))
    assert order.p == pytest.approx(1 / 27_720)
    assert order.margin == pytest.approx(20 - 12)


def test_many_members_are_drawn():
    groups = {"a": list(range(15)), "b": list(range(20, 35))}
    order = ordered(groups, ("a", "b"))
    assert order.how == "draws"
    assert order.p < 1e-3
    assert ordered(groups, ("b", "a")).p > 0.99
    assert order == ordered(groups, ("a", "b"))


def test_nothing_to_order():
    for groups, order in (({"a": [1]}, ("a", "b")), ({"a": [1]}, ("a",))):
        with pytest.raises(DataError):
            ordered(groups, order)
