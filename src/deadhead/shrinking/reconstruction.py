"""Remove the units of a layer one by one, each time the one whose loss a refit repairs best.

The output projection W reads x with the second moment H. Without the unit u, the best weights of
the others give back all of the output but an error of trace(W_u ((H^-1)_uu)^-1 W_u^T), the optimal
brain surgeon. After each removal, W becomes those best weights, and H^-1 that of the columns left.
"""

import torch
from torch import Tensor

RIDGE = 1e-2  # relative to the mean diagonal of H
ROUNDS = 48  # in which the neurons of a layer are removed
COMPARED = 2  # neurons of a round that are compared for each that is removed
COMPACT = 0.75  # the share of remaining columns at which the others are dropped from memory

Order = tuple[list[int], list[float]]  # units as they leave, and the error after each


def order_of_removal(moment: Tensor, weight: Tensor, width: int) -> Order:
    """Return the numbers of the units as they are removed, and the mean squared error after each.

    moment: columns x columns. weight: outputs x columns. width: columns of a unit.

    Each time the cheapest unit is removed. Single columns are thousands, so they are removed in
    rounds: of the cheapest candidates at the start of a round, some are removed one by one, and
    only the costs of these candidates are updated at once. The errors are exact for the order.
    """
    ridge = (RIDGE * moment.diagonal().mean()).clamp(min=1e-30)
    damped = moment.clone()
    damped.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    del damped  # it has 1.6 GB for the 14,336 neurons of a layer
    rows = weight.T.to(moment, copy=True).contiguous()  # columns x outputs, changed in place
    numbers = torch.arange(len(moment) // width, device=moment.device)
    left = torch.ones_like(numbers, dtype=torch.bool)
    at_once = 1 if width > 1 else max(1, len(left) // ROUNDS)
    order: list[int] = []
    errors: list[float] = []
    total = len(left)
    while len(order) < total:
        costs = torch.where(left, _costs(inverse, rows, width), torch.inf)
        if width > 1:
            chosen = costs.argmin()[None]
            errors += costs[chosen].tolist()
        else:
            count = min(COMPARED * at_once, total - len(order))
            near = costs.sort(stable=True).indices[:count]
            products = rows[near] @ rows[near].T
            steps, more = _one_by_one(inverse[near][:, near], products, min(at_once, count))
            chosen = near[steps]
            errors += more
        order += numbers[chosen].tolist()
        left[chosen] = False
        columns = (chosen[:, None] * width + torch.arange(width, device=left.device)).flatten()
        across = inverse[columns]
        moved = torch.cholesky_solve(across, torch.linalg.cholesky(across[:, columns]))
        rows.addmm_(moved.T, rows[columns], alpha=-1)
        inverse.addmm_(across.T, moved, alpha=-1)
        if width > 1 or total - len(order) <= COMPACT * len(left):
            stay = left.repeat_interleave(width).nonzero().flatten()
            rows, inverse = rows[stay], inverse[stay][:, stay]
            numbers, left = numbers[left], left[left]
    return order, torch.tensor(errors, dtype=torch.float64).cumsum(0).tolist()


def _costs(inverse: Tensor, rows: Tensor, width: int) -> Tensor:
    """The error without each unit, after the best refit."""
    if width == 1:
        return rows.square().sum(1) / inverse.diagonal()
    units = len(inverse) // width
    blocks = inverse.view(units, width, units, width).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    factors = torch.linalg.cholesky(blocks)
    parts = rows.view(units, width, -1)
    return torch.linalg.solve_triangular(factors, parts, upper=False).square().sum((1, 2))


def _one_by_one(inverse: Tensor, products: Tensor, count: int) -> tuple[list[int], list[float]]:
    """The same for single columns, a few among these candidates: their numbers and errors.

    products: of the rows of W with each other, all that the errors depend on. There are fewer
    candidates than outputs.
    """
    inverse, products = inverse.cpu(), products.cpu()  # small, and each step depends on the last
    order: list[int] = []
    errors: list[float] = []
    removed = torch.zeros(len(inverse), dtype=torch.bool)
    for _ in range(count):
        costs = (
            (products.diagonal() / inverse.diagonal()).clamp(min=0).masked_fill(removed, torch.inf)
        )
        number = int(costs.argmin())
        order.append(number)
        errors.append(float(costs[number]))
        removed[number] = True
        column = inverse[:, number] / inverse[number, number]
        products.addr_(column, products[number].clone(), alpha=-1)
        products.addr_(products[:, number].clone(), column, alpha=-1)
        inverse.addr_(column, inverse[number].clone(), alpha=-1)
    return order, errors
