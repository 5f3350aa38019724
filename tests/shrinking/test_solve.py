"""The algebra of a refit against plain least squares on the rows themselves."""

import pytest
import torch

from deadhead.shrinking.candidates import CANDIDATES
from deadhead.shrinking.solve import RIDGES, Sums, best, candidates, error, refits, scales

INPUTS, OUTPUTS, WIDTH = 6, 4, 2


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def rows(count, seed):
    """Inputs with means and correlations, and errors that depend on them."""
    random = torch.Generator().manual_seed(seed)
    mix = torch.randn(INPUTS, INPUTS, generator=torch.Generator().manual_seed(7)).double()
    depends = torch.randn(INPUTS, OUTPUTS, generator=torch.Generator().manual_seed(8)).double()
    inputs = torch.randn(count, INPUTS, generator=random).double() @ mix + 1.5
    noise = torch.randn(count, OUTPUTS, generator=random).double()
    return inputs, inputs @ depends + 0.3 * noise - 2


def sums_of(inputs, errors, weights=None, parts=1):
    sums = Sums.zeros(INPUTS, OUTPUTS, torch.device("cpu"))
    weights = torch.ones(len(inputs)).double() if weights is None else weights
    for x, e, w in zip(inputs.chunk(parts), errors.chunk(parts), weights.chunk(parts), strict=True):
        sums.add(x, e, (e + 1).square().sum(1), w)
    return sums


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_refit_is_least_squares_with_rows_for_the_ridge(is_weighted):
    inputs, errors = rows(60, 1)
    weights = torch.rand(60).double() + 0.1 if is_weighted else torch.ones(60).double()
    changes = list(refits("refit", sums_of(inputs, errors, weights, parts=7)))
    assert [change.name.split()[1] for change in changes[1:]] == [f"{r:.0e}" for r in RIDGES]
    mean_x, mean_e = (weights @ inputs / weights.sum(), weights @ errors / weights.sum())
    roots = weights.sqrt()[:, None]
    x, e = (inputs - mean_x) * roots, (errors - mean_e) * roots
    for change, ridge in zip(changes[1:], RIDGES, strict=True):
        size = (ridge * x.square().sum(0).mean()).sqrt()
        more = torch.cat([x, size * torch.eye(INPUTS).double()])
        zeros = torch.cat([e, torch.zeros(INPUTS, OUTPUTS).double()])
        expected = torch.linalg.lstsq(more, zeros).solution
        assert torch.allclose(change.weight, expected, atol=1e-10)
        assert torch.allclose(change.bias, mean_e - mean_x @ expected, atol=1e-10)
    sizes = [float(change.weight.norm()) for change in changes]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.5 * sizes[-1]


def test_scales_are_least_squares_of_a_factor_per_unit():
    inputs, errors = rows(60, 2)
    weight = torch.randn(INPUTS, OUTPUTS, generator=torch.Generator().manual_seed(3)).double()
    change = scales(sums_of(inputs, errors), weight, WIDTH)
    units = inputs.view(60, -1, WIDTH)
    parts = torch.einsum("tuw,uwo->tou", units, weight.view(-1, WIDTH, OUTPUTS))
    ones = torch.eye(OUTPUTS).double().expand(60, -1, -1)
    matrix = torch.cat([parts, ones], -1).flatten(0, 1)
    solution = torch.linalg.lstsq(matrix, errors.flatten()[:, None]).solution[:, 0]
    factors, bias = solution[: INPUTS // WIDTH], solution[INPUTS // WIDTH :]
    assert torch.allclose(change.weight, factors.repeat_interleave(WIDTH)[:, None] * weight)
    assert torch.allclose(change.bias, bias)
    assert float(factors.abs().max()) > 0.1


def test_the_best_is_the_lowest_on_the_held_out_rows():
    fit, held_out = sums_of(*rows(12, 5)), sums_of(*rows(400, 6))
    weight = torch.randn(INPUTS, OUTPUTS).double()
    changes = list(candidates(CANDIDATES, fit, fit, weight, WIDTH))
    assert len(changes) == 3 + 2 * (len(RIDGES) + 1)
    winner, before, after = best(changes, held_out, weight)
    errors = {change.name: float(error(held_out, change)) for change in changes}
    assert winner.name == min(errors, key=lambda name: errors[name])
    assert after < before
    total = float(held_out.squared_target)
    assert after == pytest.approx(errors[winner.name] / total)
    assert before == pytest.approx(float(held_out.squared_error) / total)


def test_inputs_that_depend_on_each_other_have_a_solution():
    inputs, errors = rows(60, 1)
    inputs = torch.cat([inputs[:, :3], inputs[:, :3]], 1)  # the second half repeats the first
    inputs[:, 0] = 1.0  # and one never changes
    sums = sums_of(inputs, errors)
    winner, before, after = best(refits("refit", sums), sums, torch.zeros(INPUTS, OUTPUTS).double())
    assert after < before
    assert bool(winner.weight.isfinite().all())


def test_an_empty_layer_has_a_bias_alone():
    sums = Sums.zeros(0, OUTPUTS, torch.device("cpu"))
    errors = rows(10, 1)[1]
    sums.add(torch.zeros(10, 0).double(), errors, errors.square().sum(1), torch.ones(10).double())
    changes = list(candidates(CANDIDATES, sums, sums, torch.zeros(0, OUTPUTS).double(), WIDTH))
    assert [change.name for change in changes] == ["mean", "weighted mean"]
    assert torch.allclose(changes[0].bias, errors.mean(0))
    for names in (("scales",), ("refit",)):  # they have a bias, too
        (change,) = candidates(names, sums, sums, torch.zeros(0, OUTPUTS).double(), WIDTH)
        assert torch.equal(change.bias, changes[0].bias)


def test_directions_that_the_rows_never_show_stay_as_they_were():
    """Inputs vary in three of six directions: no candidate of a refit moves the other three."""
    inputs, errors = rows(60, 1)
    basis = torch.linalg.qr(torch.randn(INPUTS, INPUTS, generator=seeded(4)).double())[0]
    seen, hidden = basis[:, :3], basis[:, 3:]
    inputs = inputs @ seen @ seen.T
    changes = list(refits("refit", sums_of(inputs, errors)))
    assert len(changes) > len(RIDGES)
    for change in changes:
        assert float((hidden.T @ change.weight).abs().max()) < 1e-5
        assert float((seen.T @ change.weight).abs().max()) > 1e-3
    # least squares for the new weights, and not for a change of the old ones, moves them
    old = torch.randn(INPUTS, OUTPUTS, generator=seeded(5)).double()
    new = torch.linalg.lstsq(inputs, inputs @ old + errors, driver="gelsd").solution
    assert float((hidden.T @ (new - old)).abs().max()) > 0.1
