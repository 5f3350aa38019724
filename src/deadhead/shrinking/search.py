"""The set of units that costs least together, by a matrix of costs of pairs: greedy, then swaps."""

import numpy as np

from deadhead.rankers.fisher import greedy

SMALL = 1e-12  # relative to the largest cost of a unit: a smaller gain is rounding


def cheapest_set(matrix: np.ndarray, prices: np.ndarray, total: float) -> np.ndarray:
    """Find the units to remove so that their prices add up to the total, as booleans.

    It minimises the sum of the matrix over pairs of removed units. The search is greedy; then it
    drops units and swaps pairs until neither helps. For a diagonal matrix and equal prices the
    result is the best there is.
    """
    removed = np.zeros(len(matrix), dtype=bool)
    for number in greedy(matrix, prices)[0]:
        if prices[removed].sum() >= total:
            break
        removed[number] = True
    return swapped(matrix, removed, prices=prices, total=total)


def swapped(
    matrix: np.ndarray,
    removed: np.ndarray,
    *,
    prices: np.ndarray | None = None,
    total: float = 0.0,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """The set after the best swaps of a removed unit for another, until none helps.

    prices, total: only swaps that still save the total; units beyond it come back.
    labels: only swaps of units with the same label, such as their layer.
    """
    removed, own = removed.copy(), matrix.diagonal()
    least = SMALL * max(float(own.max(initial=0.0)), 1e-300)
    while removed.any():
        shared = matrix @ removed
        inside, outside = np.flatnonzero(removed), np.flatnonzero(~removed)
        back = own[inside] - 2 * shared[inside]  # the change when a unit comes back
        change = back[:, None] + (own + 2 * shared)[outside] - 2 * matrix[np.ix_(inside, outside)]
        if labels is not None:
            change[labels[inside][:, None] != labels[outside]] = np.inf
        alone = np.full(len(inside), np.inf)
        if prices is not None:
            spare = float(prices[inside].sum()) - total + SMALL * abs(total)
            change[prices[inside][:, None] - prices[outside] > spare] = np.inf
            alone = np.where(prices[inside] <= spare, back, np.inf)
        if min(alone.min(), change.min(initial=np.inf)) >= -least:
            break
        if alone.min() < change.min(initial=np.inf):
            removed[inside[alone.argmin()]] = False
        else:
            first, second = np.unravel_index(int(change.argmin()), change.shape)
            removed[inside[first]], removed[outside[second]] = False, True
    return removed


def rearranged(gradients: np.ndarray, count: int) -> list[int]:
    """This number of units to remove from a layer, by the greedy swaps of Kwon et al. 2022.

    gradients: units x batches. The units of the smallest gradients leave. Then each other unit, the
    smaller ones first, joins them, and of them all the one comes back whose absence leaves the
    smallest sum of gradients.
    """
    squares = np.square(gradients).sum(1)
    order = np.argsort(squares, kind="stable").tolist()
    removed = order[:count]
    total = gradients[removed].sum(0)
    for number in order[count:] if count else ():
        removed.append(number)
        total = total + gradients[number]
        shared = gradients[removed] @ total
        back = removed.pop(int(np.argmin(squares[removed] - 2 * shared)))
        total = total - gradients[back]
    return sorted(removed)
