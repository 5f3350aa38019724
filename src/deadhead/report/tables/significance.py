"""Which cells of a table differ from the unpruned model: one test each, one error rate per table.

A cell is tested if both the cell and its base were repeated. The Benjamini-Hochberg rule chooses
the cells to mark, so that the expected share of chance differences among them is at most RATE.
"""

from collections.abc import Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any

from deadhead.results.statistics import benjamini_hochberg, two_means

RATE = 0.05  # false discoveries among the marked cells of a table
UNPRUNED = "the unpruned model"
SEEDS = "the best of the same number of unpruned seeds"


def compared(
    numbers: Sequence[float], base: Sequence[float], lower_is_better: bool = False
) -> dict[str, Any]:
    """The p-value of a cell against its base (None if not testable) and the direction."""
    if not numbers or not base:
        return {"p": None, "toward": None}
    p, difference = two_means(numbers, base), fmean(numbers) - fmean(base)
    toward = "better" if (difference < 0) == lower_is_better else "worse"
    return {"p": None if isnan(p) else p, "toward": toward}


def mark_cells(cells: Sequence[Sequence[dict[str, Any]]], against: str = UNPRUNED) -> str:
    """Mark the cells of a table that differ; return how they were tested, empty without a base."""
    compared_cells = [cell for row in cells for cell in row if cell["toward"]]
    p_values = [nan if cell["p"] is None else cell["p"] for cell in compared_cells]
    for cell, q in zip(compared_cells, benjamini_hochberg(p_values), strict=True):
        cell["mark"] = cell["toward"] if q <= RATE else None  # false for nan
    for row in cells:
        for cell in row:
            del cell["toward"]
            cell["p"] = None if cell["p"] is None else float(f"{cell['p']:.3g}")
    tested = sum(cell["p"] is not None for cell in compared_cells)
    marked = sum(cell["mark"] is not None for cell in compared_cells)
    return _words(len(compared_cells), tested, marked, against)


def _words(cells: int, tested: int, differ: int, against: str) -> str:
    if not cells:
        return ""
    if not tested:
        return (
            f"No cell is coloured: none of the {cells} could be tested against {against}. "
            "A test needs two or more repetitions of both that are not all equal."
        )
    unrepeated = f"{tested} of {cells} cells (the others were not repeated)"
    return (
        f"Coloured: differs from {against}. Each cell has a t-test (the larger p of Welch's and "
        "Student's), then Benjamini-Hochberg over the table: of the coloured cells at most "
        f"{100 * RATE:g} % are expected to differ by chance. "
        f"Tested: {f'all {cells} cells' if tested == cells else unrepeated}; "
        f"{differ or 'none'} {'differs' if differ == 1 else 'differ'}."
    )
