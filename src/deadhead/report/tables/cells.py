"""One cell of a table: its number, the test that marks it, and the numbers behind it.

A cell is tested if both the cell and its base were repeated. The Benjamini-Hochberg rule chooses
the cells to mark, so that the expected share of chance differences among them is at most RATE.

The numbers behind a cell are one for each repetition, with its seed and its trials. Their mean is
the number in the cell. They have the cell's language, split and metric, and they are differences
if the cell shows differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import isnan, nan
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, removal_words
from deadhead.results import Mean
from deadhead.results.statistics import benjamini_hochberg, deviation, two_means

from .published import ROUND

RATE = 0.05  # false discoveries among the marked cells of a table
UNPRUNED = "the unpruned model"
SEEDS = "the best of the same number of unpruned seeds"
MOST_NUMBERS = 100  # that a cell lists
IN_REMOVE = ("strategy", "amount")  # labels that `remove` contains
Number = list[Any]  # the number, what it repeats, and its parts as [trial, language, score]
MOST_TRIALS = 100  # ids that a cell of a table lists
Entry = dict[str, Any]  # one cell of a table, as plain data


def entry(mean: Mean | None, published: float | None, *, lower_is_better: bool = False) -> Entry:
    """One cell of a table; whether it is marked is decided over the whole table."""
    numbers = mean.repeats if mean else []
    against = mean.base.repeats if mean and mean.base else ()
    return {
        "ours": round(fmean(numbers), ROUND) if numbers else None,
        "spread": round(deviation(numbers), ROUND) if len(numbers) > 1 else None,
        "n": len(numbers),
        "published": None if published is None else round(published, ROUND),
        "state": mean.state() if mean else "none",
        "mark": None,
        **compared(numbers, against, lower_is_better),
        "numbers": numbers_behind(mean) if mean else [],
        "trials": list(islice(mean.cells, MOST_TRIALS)) if mean else [],
        "records": len(mean.cells) if mean else 0,
    }


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


def labelled_cells(table: Mapping[str, Any]) -> Iterator[tuple[list[Any], Entry]]:
    """Yield the cells of a table, each with the labels of its row and its column."""
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        for column, cell in zip(table["columns"], cells, strict=True):
            yield [*row, *column], cell


def numbers_behind(mean: Mean) -> list[Number]:
    """What the page lists for a cell; the first ones if there are very many."""
    repetitions = mean.repetitions()[:MOST_NUMBERS]
    sources = dict.fromkeys(source for _, scores in repetitions for source in scores)
    cells = {trial: mean.cells[trial].names for trial, _ in sources if trial in mean.cells}
    axes = dict.fromkeys(axis for names in cells.values() for axis in names)
    varied = [a for a in axes if len({names.get(a) for names in cells.values()}) > 1]
    named = ["seed", *(axis for axis in varied if axis not in ("seed", *IN_REMOVE))]
    mixed = len({language for _, language in sources}) > 1
    numbers = []
    for repeat, scores in repetitions:
        parts = []
        for key, score in scores.items():
            itself = [(*key, score)] if key[0] in cells else []
            for trial, language, value in mean.parts[key]() if key in mean.parts else itself:
                rounded = None if value is None else round(value, ROUND)
                parts.append([trial, language if mixed else "", rounded])
        words = _repetition_words(
            repeat, [cells[trial] for trial, _ in scores if trial in cells], named
        )
        numbers.append([round(fmean(scores.values()), ROUND), words, parts])
    return numbers


def _repetition_words(repeat: Any, cells: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> str:
    """What distinguishes a repetition from the others: the labels that its trials share."""
    if cells:
        values = {axis: {names.get(axis) for names in cells} for axis in axes}
        labels = {axis: next(iter(of)) for axis, of in values.items() if len(of) == 1}
    elif isinstance(repeat, tuple | frozenset) and all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in repeat
    ):
        labels = dict(repeat)
    else:
        return joined(repeat)
    texts = []
    for axis in sorted(labels, key=lambda axis: axis != "seed"):
        value = labels[axis]
        number = f"{axis} {value}" if isinstance(value, int | float) else value
        texts.append(removal_words(str(value)) if axis == "remove" and value else number)
    return joined(*texts)
