"""The numbers behind one cell of a table: one for each repetition, with its seed and the trials it came from.

Their mean is the number in the cell. They are of the cell's own language, split and metric, and they are
differences where the cell shows differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from deadhead.report.labels import joined, removal_words
from deadhead.results.cells import Cell

from .published import ROUND

if TYPE_CHECKING:
    from .grid import Part, Unit

MOST_NUMBERS = 100  # that a cell lists
UNTOLD = ("strategy", "amount")  # labels that `remove` has in it
Number = list[
    Any
]  # the number, what it is a repetition of, and its parts as [trial, language, score]


def numbers_behind(unit: Unit) -> list[Number]:
    """What the page lists for a cell; of very many the first."""
    held = list(islice(unit.repetitions(), MOST_NUMBERS))
    told = _telling(unit, [trial for _, scores in held for trial, _ in scores])
    several = len({language for _, scores in held for _, language in scores}) > 1
    return [
        [
            round(fmean(scores.values()), ROUND),
            _words(over, [unit.cells[trial] for trial, _ in scores if trial in unit.cells], told),
            [
                _rounded(part, several)
                for one, score in scores.items()
                for part in _parts(unit, one, score)
            ],
        ]
        for over, scores in held
    ]


def _parts(unit: Unit, one: tuple[str, str], score: float) -> Sequence[Part]:
    if one in unit.parts:
        return unit.parts[one]()
    return [(*one, score)] if one[0] in unit.cells else []


def _rounded(part: Part, several: bool) -> list[Any]:
    trial, language, score = part
    return [trial, language if several else "", None if score is None else round(score, ROUND)]


def _telling(unit: Unit, trials: Iterable[str]) -> list[str]:
    """The axes in which the trials of a cell differ, the seed first: it is named though there be only one."""
    cells = [unit.cells[trial] for trial in dict.fromkeys(trials) if trial in unit.cells]
    names = dict.fromkeys(name for cell in cells for name in cell.axes if name not in UNTOLD)
    return [
        "seed",
        *(
            name
            for name in names
            if name != "seed" and len({cell.axes.get(name) for cell in cells}) > 1
        ),
    ]


def _words(over: Any, cells: Sequence[Cell], names: Sequence[str]) -> str:
    """What tells a repetition from the others: the labels its trials agree in."""
    if not cells:
        return _labels(dict(over)) if _pairs(over) else joined(over)
    agreed = {
        name: cells[0].axes.get(name)
        for name in names
        if len({cell.axes.get(name) for cell in cells}) == 1
    }
    return _labels(agreed)


def _pairs(over: Any) -> bool:
    return isinstance(over, tuple | frozenset) and all(
        isinstance(one, tuple) and len(one) == 2 for one in over
    )


def _labels(labels: Mapping[str, Any]) -> str:
    order = sorted(labels, key=lambda name: name != "seed")
    return joined(*(_label(name, labels[name]) for name in order if labels[name] is not None))


def _label(name: str, value: Any) -> str:
    if name == "remove":
        return removal_words(str(value))
    return f"{name} {value}" if isinstance(value, int | float) else str(value)
