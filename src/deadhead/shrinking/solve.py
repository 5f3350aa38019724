"""Least squares for an output projection, from sums over tokens alone: pure tensor algebra.

A projection that keeps some of its inputs X should give the target T again. With its old weights,
the error is E = T - X W - b. All candidates are changes (D, c) that lessen
|E - X D - c|^2, so the old weights are where a ridge pulls to, and no change is the zero. The sums
of X, E, X'X, X'E and |E|^2 give each solution and, for other tokens, its error in closed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from deadhead.numerics import precise_product

from .candidates import CANDIDATES

NOTHING = "nothing"
RIDGES = (1e-3, 1e-2, 0.1, 1.0)  # relative to the mean square of an input about its mean
PASSES = 4  # that leave directions out which are smaller than the ridge
SOLVED = 3  # reasons to stop below it mean that LSMR has a solution
TIE = 1e-12  # relative to the squared target: a smaller gain is rounding


@dataclass(kw_only=True)
class Sums:
    """Sums over tokens of the inputs X (tokens x inputs) and the errors E (tokens x outputs).

    Products are in the precision of the rows, sums in float64 (on mps in float32, which has no
    float64).
    """

    tokens: Tensor  # or the sum of their weights
    inputs: Tensor
    errors: Tensor
    squares: Tensor  # X'X; of one axis and empty if only the bias will change
    products: Tensor  # X'E, likewise
    squared_error: Tensor
    squared_target: Tensor
    rounding: float = 0.0  # of a product
    constant: bool = True  # whether the bias changes too

    @classmethod
    def zeros(
        cls,
        inputs: int,
        outputs: int,
        device: torch.device,
        *,
        products: bool = True,
        constant: bool = True,
    ) -> Sums:
        """products: add up X'X and X'E too, which only the weights need."""
        precise = torch.float32 if device.type == "mps" else torch.float64
        zeros = partial(torch.zeros, dtype=precise, device=device)
        return cls(
            tokens=zeros(()),
            inputs=zeros(inputs),
            errors=zeros(outputs),
            squares=zeros(inputs, inputs) if products else zeros(0),
            products=zeros(inputs, outputs) if products else zeros(0),
            squared_error=zeros(()),
            squared_target=zeros(()),
            constant=constant,
        )

    def add(self, inputs: Tensor, errors: Tensor, squared_targets: Tensor, weights: Tensor) -> None:
        """Add rows, each with its weight; a row of weight 0 must be 0 as well, not nan."""
        scaled = inputs * weights[:, None]
        precise = self.tokens.dtype
        self.tokens += weights.sum(dtype=precise)
        self.inputs += scaled.sum(0, dtype=precise)
        self.errors += (errors * weights[:, None]).sum(0, dtype=precise)
        if self.squares.dim() == 2:
            self.squares += precise_product(scaled.T, inputs)
            self.products += precise_product(scaled.T, errors)
        self.squared_error += (errors.square().sum(-1) * weights).sum(dtype=precise)
        self.squared_target += (squared_targets * weights).sum(dtype=precise)
        self.rounding = torch.finfo(inputs.dtype).eps

    def centred(self) -> tuple[Tensor, Tensor]:
        """X'X and X'E, about the means of X and E if the bias changes too."""
        if not self.constant:
            return self.squares, self.products
        squares = self.squares - torch.outer(self.inputs, self.inputs) / self.tokens
        return squares, self.products - torch.outer(self.inputs, self.errors) / self.tokens

    def is_finite(self) -> bool:
        return bool((self.squares.sum() + self.products.sum() + self.squared_error).isfinite())

    def precise(self) -> Sums:
        """These sums in float64, on the CPU if their device has none."""
        if self.tokens.dtype == torch.float64:
            return self
        moved = {n: v.cpu().double() for n, v in vars(self).items() if isinstance(v, Tensor)}
        return Sums(**moved, rounding=self.rounding, constant=self.constant)


@dataclass(frozen=True)
class Change:
    """Numbers to add to the weights (inputs x outputs) and to the bias of a projection."""

    name: str
    weight: Tensor
    bias: Tensor


def error(sums: Sums, change: Change) -> Tensor:
    """The squared error |E - X D - c|^2 over the tokens of the sums."""
    weight, bias = change.weight, change.bias
    of_bias = sums.tokens * (bias @ bias) - 2 * bias @ sums.errors
    if sums.squares.dim() != 2:
        return sums.squared_error + of_bias
    linear = (weight * sums.products).sum()
    square = (weight * (sums.squares @ weight)).sum()
    return sums.squared_error - 2 * linear + square + of_bias + 2 * (sums.inputs @ weight) @ bias


def candidates(
    names: Iterable[str], fit: Sums, weighted: Sums, weight: Tensor, width: int
) -> Iterator[Change]:
    """Solve the changes to try: first those of the bias alone.

    weight: the old weights of the kept inputs, inputs x outputs; `width` inputs belong to a unit.
    A layer without inputs has a bias alone, whatever the candidate.
    """
    chosen = [(name, CANDIDATES[name]) for name in names]
    bias_only = torch.zeros_like(weight)
    for relative, name, sums in ((False, "mean", fit), (True, "weighted mean", weighted)):
        same = [kind for _, kind in chosen if kind.relative == relative]
        if any(kind.has_mean or not len(weight) for kind in same):
            yield Change(name, bias_only, _bias(sums, bias_only))
    for name, kind in chosen if len(weight) else ():
        sums = weighted if kind.relative else fit
        if kind.unknowns == "units":
            yield scales(sums, weight, width)
        elif kind.unknowns == "inputs":
            yield from refits(name, sums)


def scales(sums: Sums, weight: Tensor, width: int) -> Change:
    """One factor for each unit, and a bias."""
    squares, products = sums.centred()
    units = len(weight) // width
    matrix = ((weight @ weight.T) * squares).reshape(units, width, units, width).sum((1, 3))
    vector = (weight * products).reshape(units, -1).sum(1)
    ridge = _rounding_ridge(sums, units) * _scale(matrix)
    factors = torch.linalg.solve(matrix + ridge * _eye(matrix), vector[:, None])
    change = factors.repeat_interleave(width, 0) * weight
    return Change("scales", change, _bias(sums, change))


def damped_scales(sums: Sums, weight: Tensor, width: int, constant: bool) -> Tensor | None:
    """One factor for each unit as Kwon et al. 2022 solve them; None if their solver fails.

    LSMR solves the normal equations for the change from 1, with a damping of 1 and its own stop
    rules, which hold back directions that the tokens hardly determine.
    constant: there is one more unknown, which begins at 1 and is not kept: a number that is added
        to all outputs of all tokens.
    """
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import lsmr

    units = len(weight) // width
    matrix = ((weight @ weight.T) * sums.squares).reshape(units, width, units, width).sum((1, 3))
    vector = (weight * sums.products).reshape(units, -1).sum(1)
    if constant:
        column = (weight.sum(1) * sums.inputs).reshape(units, width).sum(1)
        last = sums.tokens * len(sums.errors)
        matrix = torch.cat((matrix, column[None]))
        matrix = torch.cat((matrix, torch.cat((column, last[None]))[:, None]), 1)
        vector = torch.cat((vector - column, (sums.errors.sum() - last)[None]))
    if len(vector) == 1:
        return 1 + vector / matrix[0]
    # LSMR takes thousands of steps; in the basis of the eigenvectors, each multiplies by a diagonal
    values, basis = torch.linalg.eigh(matrix)
    diagonal, rotated = diags_array(values.cpu().numpy()), (basis.T @ vector).cpu().numpy()
    solution, reason, *_ = lsmr(diagonal, rotated, damp=1, maxiter=5 * len(vector))
    change = basis @ torch.from_numpy(solution).to(basis)
    return 1 + change[:units] if reason < SOLVED else None


def refits(name: str, sums: Sums) -> Iterator[Change]:
    """Ridge regressions from the old weights on, from the weakest ridge to the strongest.

    The weakest only covers the rounding of the sums, so that what the kept inputs can give exactly
    is given exactly. Directions that the tokens never show stay as they were.
    """
    squares, products = sums.centred()
    scale, weakest = _scale(squares), _rounding_ridge(sums, len(squares))
    for ridge in (*((weakest,) if weakest < RIDGES[0] else ()), *RIDGES):
        factor, failed = torch.linalg.cholesky_ex(squares + ridge * scale * _eye(squares))
        if not bool(failed):
            change = torch.cholesky_solve(products, factor)
            if ridge == weakest:
                change = _shown(change, factor, ridge * scale)
            yield Change(f"{name} {ridge:.0e}", change, _bias(sums, change))


def best(changes: Iterable[Change], held_out: Sums, weight: Tensor) -> tuple[Change, float, float]:
    """The change with the smallest error on the held-out tokens, and this error before and after.

    Both errors are relative to the squared target. No change at all wins ties.
    """
    nothing = Change(NOTHING, torch.zeros_like(weight), torch.zeros_like(held_out.errors))
    total = float(held_out.squared_target) or 1.0
    before = float(held_out.squared_error) / total
    winner, lowest = nothing, before - TIE
    for change in changes:
        after = float(error(held_out, change)) / total
        if after < lowest:
            winner, lowest = change, after
    return winner, before, before if winner is nothing else max(lowest, 0.0)


def _shown(change: Tensor, factor: Tensor, ridge: Tensor) -> Tensor:
    """A change without its directions of a size below the ridge: rounding over rounding.

    Each pass multiplies a direction by size / (size + ridge).
    """
    for _ in range(PASSES):
        change = change - ridge * torch.cholesky_solve(change, factor)
    return change


def _bias(sums: Sums, change: Tensor) -> Tensor:
    """The change of the bias that makes the mean error 0."""
    if not sums.constant:
        return torch.zeros_like(sums.errors)
    return (sums.errors - sums.inputs @ change) / sums.tokens


def _scale(matrix: Tensor) -> Tensor:
    """The mean of the diagonal; 1 for a matrix of zeros, so that it can be solved."""
    mean = matrix.diagonal().mean()
    return torch.where(mean > 0, mean, torch.ones_like(mean))


def _rounding_ridge(sums: Sums, unknowns: int) -> float:
    """The ridge, relative to the mean of the diagonal, that covers the rounding of the sums."""
    return 10 * unknowns * sums.rounding


def _eye(matrix: Tensor) -> Tensor:
    return torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
