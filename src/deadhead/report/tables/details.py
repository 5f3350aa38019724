"""The numbers behind one cell of a table: one for each repetition, with its seed and its trials.

Their mean is the number in the cell. They have the cell's language, split and metric, and they are
differences if the cell shows differences.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, removal_words
from deadhead.results import Mean

from .published import ROUND

MOST_NUMBERS = 100  # that a cell lists
IN_REMOVE = ("strategy", "amount")  # labels that `remove` contains
Number = list[Any]  # the number, what it repeats, and its parts as [trial, language, score]


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
        words = _words(repeat, [cells[trial] for trial, _ in scores if trial in cells], named)
        numbers.append([round(fmean(scores.values()), ROUND), words, parts])
    return numbers


def _words(repeat: Any, cells: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> str:
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
