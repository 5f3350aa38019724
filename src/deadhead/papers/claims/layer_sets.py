"""Scores after whole layers were removed: by which layers, and by way to remove half of them."""

from collections.abc import Iterable, Iterator
from statistics import fmean

from deadhead.results import Score

from .evidence import Mean, means
from .rule import above, over_repeats
from .verdict import Outcome

TaskLanguage = tuple[str, str]  # task and target language
Sets = dict[tuple[str, int], dict[TaskLanguage, Mean]]
Halves = dict[TaskLanguage, dict[str, Mean]]
BLOCKS = ("top", "bottom", "middle")  # adjacent layers
ALTERNATE = ("odd", "even")
HALVES = (*BLOCKS, *ALTERNATE, "ends")


def sets_of_layers(scores: Iterable[Score]) -> Sets:
    """By (word, number of layers): the mean score at each place."""
    sets: Sets = {}
    cells = means([score for score in scores if score.shape], "shape", "task", "target")
    for (shape, task, target), cell in cells.items():
        sets.setdefault(shape, {})[task, target] = cell
    return sets


def middles(scores: Iterable[Score]) -> Iterator[tuple[TaskLanguage, Mean, Mean, Mean]]:
    """At each place and for each number of layers: without the top, the middle, the bottom ones."""
    sets = sets_of_layers(scores)
    for (word, n), cells in sets.items():
        for where, middle in cells.items() if word == "middle" else ():
            top, bottom = (sets.get((end, n), {}).get(where) for end in ("top", "bottom"))
            if top and bottom:
                yield where, top, middle, bottom


def lag(top: Mean, middle: Mean, bottom: Mean) -> float:
    """How far the score without the middle is behind those without the ends."""
    return (top.value + bottom.value) / 2 - middle.value


def halves(scores: Iterable[Score]) -> Halves:
    """At each place, the ways to remove one number of layers: {"top": ..., "odd": ...}.

    It is the number that was removed in most ways. `odd` and `even` without a number count for it,
    if there are none with the number.
    """
    sets = sets_of_layers(scores)
    numbers = {n for word, n in sets if n}
    half = max(numbers, key=lambda n: (sum((word, n) in sets for word in HALVES), n), default=0)
    places: Halves = {}
    for word in HALVES:
        without = sets.get((word, 0)) if word in ALTERNATE else None
        for place, cell in (sets.get((word, half)) or without or {}).items():
            places.setdefault(place, {})[word] = cell
    return places


def half_means(places: Halves) -> tuple[dict[str, float], list[Mean]]:
    """The mean over places of each way to remove half of the layers, and the cells behind them.

    Only ways that were tried at every place count.
    """
    groups = list(places.values())
    words = [word for word in (*BLOCKS, *ALTERNATE) if all(word in group for group in groups)]
    cells = [group[word] for group in groups for word in words]
    if not groups:
        return {}, cells
    return {word: fmean(group[word].value for group in groups) for word in words}, cells


def is_better(places: Halves, best: str, second: str, whole: bool) -> Outcome:
    """Whether one way is better than another on average."""
    pairs = [(group[best], group[second]) for group in places.values()]
    noise = over_repeats((cell.repeats for pair in pairs for cell in pair), sides=2)
    return above([first.value - other.value for first, other in pairs], 0.0, whole, noise)
