"""The order of removal by reconstruction: against least squares, in turn, with duplicates."""

import pytest
import torch

from deadhead.shrinking import reconstruction
from deadhead.shrinking.reconstruction import RIDGE, order_of_removal


def inputs(columns, rows=400, seed=0):
    draw = torch.Generator().manual_seed(seed)
    mixed = torch.randn(rows, columns // 2, generator=draw, dtype=torch.float64)
    spread = torch.randn(columns // 2, columns, generator=draw, dtype=torch.float64)
    noise = torch.randn(rows, columns, generator=draw, dtype=torch.float64)
    return mixed @ spread + noise * torch.rand(columns, generator=draw, dtype=torch.float64)


def weights(outputs, columns):
    draw = torch.Generator().manual_seed(1)
    return torch.randn(outputs, columns, generator=draw, dtype=torch.float64)


def remaining_error(x, weight, kept):
    """What ridge least squares toward the old weights leaves, by rows added for the ridge."""
    ridge = (RIDGE * (x.T @ x / len(x)).diagonal().mean() * len(x)).sqrt()
    rows = torch.cat((x, ridge * torch.eye(x.shape[1], dtype=x.dtype)))
    target = rows @ weight.T
    fitted = rows[:, kept] @ torch.linalg.lstsq(rows[:, kept], target).solution
    return float((target - fitted).square().sum()) / len(x)


@pytest.mark.parametrize("width", [1, 4])
def test_errors_are_those_of_the_best_refit(width):
    x, weight = inputs(24), weights(5, 24)
    order, errors = order_of_removal(x.T @ x / len(x), weight, width)
    assert sorted(order) == list(range(24 // width))
    for count in range(1, len(order)):
        kept = [c for c in range(24) if c // width not in order[:count]]
        assert errors[count - 1] == pytest.approx(remaining_error(x, weight, kept), rel=1e-6)
    assert errors == sorted(errors)


def test_the_first_unit_is_the_one_with_the_lowest_error():
    x, weight = inputs(24), weights(5, 24)
    order, _ = order_of_removal(x.T @ x / len(x), weight, 4)
    alone = [remaining_error(x, weight, [c for c in range(24) if c // 4 != u]) for u in range(6)]
    assert order[0] == alone.index(min(alone))


def test_rounds_find_nearly_what_one_by_one_finds(monkeypatch):
    x, weight = inputs(192), weights(16, 192)
    x[:, 100:130] = x[:, :30]  # both of a pair look free until one of them is gone
    moment = x.T @ x / len(x)
    order, errors = order_of_removal(moment, weight, 1)
    monkeypatch.setattr(reconstruction, "ROUNDS", 10**6)
    monkeypatch.setattr(reconstruction, "COMPARED", 10**6)
    exact_order, exact = order_of_removal(moment, weight, 1)
    assert errors[95] < 1.02 * exact[95]
    assert len(set(order[:96]) & set(exact_order[:96])) > 85
    pairs = [n for n in order[:30] if n < 30 and n + 100 in order[:30]]
    assert not pairs


def test_a_layer_that_reads_only_zeros_costs_nothing():
    order, errors = order_of_removal(torch.zeros(6, 6, dtype=torch.float64), weights(2, 6), 2)
    assert sorted(order) == [0, 1, 2]
    assert max(errors) < 1e-20
