"""Which cells of a table differ from the unpruned model: one test for each, with an error rate over the whole table.

A cell is tested where both it and what it is compared with were repeated. Those that are marked are chosen with
Benjamini and Hochberg's rule, so that of all marked cells the expected share that differs by chance is at most RATE.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any

from deadhead.results.statistics import benjamini_hochberg, two_means

RATE = 0.05  # false discoveries among the marked cells of a table
UNPRUNED = "the unpruned model"
SEEDS = "the best of as many unpruned seeds"


def compared(
    numbers: Sequence[float], base: Sequence[float], lower_is_better: bool = False
) -> dict[str, Any]:
    """The p-value of a cell against its base, None where it cannot be tested, and which way it lies."""
    if not numbers or not base:
        return {"p": None, "toward": None}
    p, difference = two_means(numbers, base), fmean(numbers) - fmean(base)
    return {
        "p": None if isnan(p) else p,
        "toward": "better" if (difference < 0) == lower_is_better else "worse",
    }


def marked(cells: Sequence[Sequence[dict[str, Any]]], against: str = UNPRUNED) -> str:
    """Mark the cells of a table that differ, and say how that was found; empty where there is nothing to compare with."""
    asked = [cell for row in cells for cell in row if cell["toward"]]
    adjusted = benjamini_hochberg([nan if cell["p"] is None else cell["p"] for cell in asked])
    for cell, q in zip(asked, adjusted, strict=True):
        cell["mark"] = cell["toward"] if q <= RATE else None  # nan is not
    for row in cells:
        for cell in row:
            del cell["toward"]
            cell["p"] = None if cell["p"] is None else float(f"{cell['p']:.3g}")
    return _words(
        len(asked),
        sum(cell["p"] is not None for cell in asked),
        sum(cell["mark"] is not None for cell in asked),
        against,
    )


def _words(asked: int, tested: int, differ: int, against: str) -> str:
    if not asked:
        return ""
    if not tested:
        return (
            f"No cell is coloured: none of the {asked} could be tested against {against}, "
            "which takes two or more repetitions of both that are not all equal."
        )
    which = (
        f"all {asked} cells"
        if tested == asked
        else f"{tested} of {asked} cells (the others were not repeated)"
    )
    return (
        f"Coloured: differs from {against}. A t-test for each cell (the larger p of Welch's and Student's), "
        f"then Benjamini-Hochberg over the table: of the coloured cells at most {100 * RATE:g} % are expected to differ by chance. "
        f"Tested: {which}; {differ or 'none'} {'differs' if differ == 1 else 'differ'}."
    )
