"""What people may write for a target, and the message about other things."""

from fractions import Fraction

import pytest

from deadhead.errors import DeadheadError
from deadhead.shrinking import read_targets
from deadhead.shrinking.budgets import check_reach
from deadhead.shrinking.target import TYPED, count_of


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        ("heads", 0.75, Fraction(3, 4)),
        ("heads", "75%", Fraction(3, 4)),
        ("heads", 1, 1),
        ("heads", "12", 12),
        ("neurons", "12.5%", Fraction(1, 8)),
        ("macs", "0.5", Fraction(1, 2)),
        ("parameters", "70%", Fraction(7, 10)),
        ("speedup", 1.5, Fraction(3, 2)),
        ("speedup", 2, Fraction(2)),
    ],
)
def test_amounts(name, value, amount):
    targets = read_targets({name: value})
    assert targets == {name: amount}
    assert type(targets[name]) is type(amount)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heads", 1.0),  # all of them
        ("heads", "100%"),
        ("heads", 0),
        ("heads", "most"),
        ("heads", True),
        ("heads", "-3"),
        ("neurons", "1.5"),
        ("macs", 1),
        ("parameters", 2),
        ("speedup", 1),
        ("speedup", "nan"),
        ("speedup", "1e99999999"),
        ("heads", "1e-99999999"),
        ("heads", "9" * 5000),
        ("heads", "1/0"),
    ],
)
def test_what_is_no_amount(name, value):
    with pytest.raises(DeadheadError, match=f"`{name}` expects .*, got ") as caught:
        read_targets({name: value})
    assert f"{name}=" in str(caught.value.hint)
    assert TYPED[name] in str(caught.value.hint)


def test_one_target_or_heads_and_neurons():
    assert set(read_targets({"heads": 0.5, "neurons": 0.25, "macs": None})) == {"heads", "neurons"}
    with pytest.raises(DeadheadError, match="expected a target, got none"):
        read_targets({"heads": None})
    with pytest.raises(DeadheadError, match="got heads and macs"):
        read_targets({"heads": 0.5, "macs": 0.5})


def test_counts_of_shares():
    assert count_of("heads", Fraction(3, 4), 144, 143) == 108
    assert count_of("heads", 12, 144, 143) == 12
    with pytest.raises(DeadheadError, match="at most 143 heads, got 144"):
        count_of("heads", 144, 144, 143)
    with pytest.raises(DeadheadError, match=r"to remove something, got 0\.01 of 8 heads"):
        count_of("heads", Fraction(1, 100), 8, 7)


@pytest.mark.parametrize(
    ("name", "amount", "least", "message"),
    [
        ("macs", "0.01", 0.0101, r"at least 0\.011, .* got 0\.01\."),
        ("speedup", "1.5", 0.6676, r"at most about 1\.49 .* got 1\.5\."),
    ],
)
def test_what_an_error_expects_is_accepted(name, amount, least, message):
    """Rounded to the nearest, it would be the same as what it got."""
    with pytest.raises(DeadheadError, match=message):
        check_reach(name, Fraction(amount), least, (1, 8))
