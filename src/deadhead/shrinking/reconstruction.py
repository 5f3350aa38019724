"""The order in which units leave a layer at the lowest error that the best refit would leave.

The output projection W reads x with the second moment H. Without the unit u, the best weights of
the others give back all of the output but an error of trace(W_u ((H^-1)_uu)^-1 W_u^T), the optimal
brain surgeon. After each removal, W becomes those best weights, and H^-1 that of the columns left.
"""

from __future__ import annotations

import torch
from torch import Tensor

RIDGE = 1e-2  # of the mean diagonal of H
ROUNDS = 64  # of removals in a layer of neurons: one by one would take minutes


def order_of_removal(moment: Tensor, weight: Tensor, width: int) -> tuple[list[int], list[float]]:
    """The numbers of the units as they leave, and the mean squared error after each.

    moment: columns x columns. weight: outputs x columns. width: columns of a unit. Units of more
    than one column leave one at a time. Single columns leave in rounds of the cheapest ones; the
    errors are exact for the order within a round, too.
    """
    left = torch.arange(len(moment) // width, device=moment.device)
    ridge = (RIDGE * moment.diagonal().mean()).clamp(min=1e-30)
    eye = torch.eye(len(moment), dtype=moment.dtype, device=moment.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(moment + ridge * eye))
    rows = weight.T.to(moment)  # columns x outputs
    at_once = 1 if width > 1 else max(1, len(left) // ROUNDS)
    order: list[Tensor] = []
    errors: list[Tensor] = []
    while len(left):
        chosen = _costs(inverse, rows, width).sort(stable=True).indices[:at_once]
        rest = torch.ones(len(left), dtype=torch.bool, device=left.device)
        rest[chosen] = False
        gone = (chosen[:, None] * width + torch.arange(width, device=left.device)).flatten()
        stay = rest.repeat_interleave(width).nonzero().flatten()
        factor = torch.linalg.cholesky(inverse[gone][:, gone])
        # row j: what column j costs after those before it have left
        parts = torch.linalg.solve_triangular(factor, rows[gone], upper=False)
        errors.append(parts.square().sum(1).unflatten(0, (-1, width)).sum(1))
        order.append(left[chosen])
        across = inverse[gone][:, stay]
        moved = torch.cholesky_solve(across, factor)
        rows = rows[stay] - moved.T @ rows[gone]
        inverse = inverse[stay][:, stay] - across.T @ moved
        left = left[rest]
    return torch.cat(order).tolist(), torch.cat(errors).cumsum(0).tolist()


def _costs(inverse: Tensor, rows: Tensor, width: int) -> Tensor:
    """The error that the removal of each unit alone would leave."""
    if width == 1:
        return rows.square().sum(1) / inverse.diagonal()
    units = len(inverse) // width
    blocks = inverse.view(units, width, units, width).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    factors = torch.linalg.cholesky(blocks)
    parts = rows.view(units, width, -1)
    return torch.linalg.solve_triangular(factors, parts, upper=False).square().sum((1, 2))
