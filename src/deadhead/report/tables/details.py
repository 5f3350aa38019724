"""The numbers behind one cell of a table: one for each repetition, with its seed and its trials.

Their mean is the number in the cell. They have the cell's language, split and metric, and they are
differences if the cell shows differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, removal_words
from deadhead.results.cells import Cell

from .published import ROUND
from .units import Part, Unit

MOST_NUMBERS = 100  # that a cell lists
IN_REMOVE = ("strategy", "amount")  # labels that `remove` contains
Number = list[Any]  # the number, what it repeats, and its parts as [trial, language, score]


def numbers_behind(unit: Unit) -> list[Number]:
    """What the page lists for a cell; the first ones if there are very many."""
    repetitions = list(islice(unit.repetitions(), MOST_NUMBERS))
    axes = _varied_axes(unit, [trial for _, scores in repetitions for trial, _ in scores])
    mixed = len({language for _, scores in repetitions for _, language in scores}) > 1
    return [
        [
            round(fmean(scores.values()), ROUND),
            _words(repeat, [unit.cells[trial] for trial, _ in scores if trial in unit.cells], axes),
            [
                _rounded(part, mixed)
                for key, score in scores.items()
                for part in _parts(unit, key, score)
            ],
        ]
        for repeat, scores in repetitions
    ]


def _parts(unit: Unit, key: tuple[str, str], score: float) -> Sequence[Part]:
    if key in unit.parts:
        return unit.parts[key]()
    return [(*key, score)] if key[0] in unit.cells else []


def _rounded(part: Part, mixed: bool) -> list[Any]:
    trial, language, score = part
    return [trial, language if mixed else "", None if score is None else round(score, ROUND)]


def _varied_axes(unit: Unit, trials: Iterable[str]) -> list[str]:
    """The axes in which the trials of a cell differ, and before them the seed."""
    cells = [unit.cells[trial] for trial in dict.fromkeys(trials) if trial in unit.cells]
    axes = dict.fromkeys(axis for cell in cells for axis in cell.axes if axis not in IN_REMOVE)
    return [
        "seed",
        *(a for a in axes if a != "seed" and len({cell.axes.get(a) for cell in cells}) > 1),
    ]


def _words(repeat: Any, cells: Sequence[Cell], axes: Sequence[str]) -> str:
    """What distinguishes a repetition from the others: the labels that its trials share."""
    if not cells:
        return _labels(dict(repeat)) if _is_pairs(repeat) else joined(repeat)
    labels = {axis: {cell.axes.get(axis) for cell in cells} for axis in axes}
    return _labels({axis: next(iter(s)) for axis, s in labels.items() if len(s) == 1})


def _is_pairs(repeat: Any) -> bool:
    return isinstance(repeat, tuple | frozenset) and all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in repeat
    )


def _labels(labels: Mapping[str, Any]) -> str:
    order = sorted(labels, key=lambda axis: axis != "seed")
    return joined(*(_label(axis, labels[axis]) for axis in order if labels[axis] is not None))


def _label(axis: str, value: Any) -> str:
    if axis == "remove":
        return removal_words(str(value))
    return f"{axis} {value}" if isinstance(value, int | float) else str(value)
