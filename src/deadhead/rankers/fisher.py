"""Fisher scores: how much would the loss rise if a whole set of heads closed?

F is the mean over examples of the products of gate gradients. To second order, closing the heads of
a set S raises the loss by half the sum of F over S x S: F knows that two heads with opposite
gradients cost little together, and that two heads which do the same cost more than twice as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deadhead.layout import Head

from .ranker import Ranker, RankerInputs

DISTINCT = 1e-12  # by which share a score exceeds the one before, so that the order is kept


@dataclass(frozen=True)
class Fisher(Ranker):
    """The sum of F over the set of heads that leaves first, up to this head.

    The set grows by the head that adds least, so `ranking.lowest(k)` is the set of k heads. Heads
    that share a key/value head leave together, with one score.
    """

    differentiates = True
    takes_fill = True

    form: Literal["whole", "diagonal"] = "whole"  # which part of F counts

    def __call__(self, inputs: RankerInputs) -> dict[Head, float]:
        from .gate_gradients import products

        layout = inputs.layout
        groups = [group for attention in layout.attentions for group in attention.groups]
        numbers = {head: number for number, group in enumerate(groups) for head in group}
        member = np.zeros((len(numbers), len(groups)))  # which head is in which group
        member[np.arange(len(layout)), [numbers[head] for head in layout]] = 1
        matrix = member.T @ products(inputs).double().numpy() @ member
        if self.form == "diagonal":
            scores = matrix.diagonal()
        else:
            scores = _scores_in_order(*greedy(matrix))
        return {head: float(scores[numbers[head]]) for head in layout}


def greedy(matrix: np.ndarray, prices: np.ndarray | None = None) -> tuple[list[int], list[float]]:
    """The order in which units leave, and the sum of the matrix over the set after each.

    The next is the unit that adds least, where units have prices the least for its price.
    """
    own = matrix.diagonal()
    shared, left = np.zeros(len(matrix)), np.ones(len(matrix), dtype=bool)
    order: list[int] = []
    sums: list[float] = []
    for _ in range(len(matrix)):
        rise = own + 2 * shared
        number = int(np.argmin(np.where(left, rise if prices is None else rise / prices, np.inf)))
        order.append(number)
        sums.append(float(rise[number]) + (sums[-1] if sums else 0.0))
        shared = shared + matrix[number]
        left[number] = False
    return order, sums


def _scores_in_order(order: Sequence[int], sums: Sequence[float]) -> list[float]:
    """The sums by unit, none below an earlier one: a set may cost less than a part of it."""
    scores = [0.0] * len(order)
    least = 0.0
    for number, value in zip(order, sums, strict=True):
        scores[number] = max(value, least)
        least = scores[number] * (1 + DISTINCT)
    return scores
