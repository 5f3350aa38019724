"""Whole layers gone: scores by which layers they were, and the ways to cut the same number of them."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from deadhead.results import Score

from .evidence import HALVES, Mean, means
from .rule import over_repeats

Place = tuple[str, str]  # task and target language
BLOCKS, PLAIN = (
    ("top", "bottom", "middle"),
    ("odd", "even"),
)  # layers in a row, and every second one
Sets = dict[tuple[str, int], dict[Place, Mean]]


def sets_of_layers(facts: Iterable[Score]) -> Sets:
    """By (word, number of layers): the mean score at each place."""
    found: Sets = {}
    for (shape, task, target), cell in means(
        [f for f in facts if f.shape], "shape", "task", "target"
    ).items():
        found.setdefault(shape, {})[task, target] = cell
    return found


def halves(facts: Iterable[Score]) -> dict[Place, dict[str, Mean]]:
    """At each place, the ways to cut one number of layers, that which is cut in most ways: {"top": ..., "odd": ...}.

    `odd` and `even` without a number count for it, if there is none with a number.
    """
    sets = sets_of_layers(facts)
    numbers = {n for word, n in sets if n}
    half = max(numbers, key=lambda n: (sum((word, n) in sets for word in HALVES), n), default=0)
    found: dict[Place, dict[str, Mean]] = {}
    for word in HALVES:
        cells = (
            sets.get((word, half))
            or (sets.get((word, 0)) if word in ("odd", "even") else None)
            or {}
        )
        for place, cell in cells.items():
            found.setdefault(place, {})[word] = cell
    return found


def half_means(
    places: dict[Place, dict[str, Mean]], fewest: int = 1
) -> tuple[dict[str, float], list[Mean]]:
    """The mean over so many places or more of each way to cut half of the layers, where every way was tried everywhere."""
    found = list(places.values())
    words = [word for word in (*BLOCKS, *PLAIN) if found and all(word in group for group in found)]
    used = [group[word] for group in found for word in words]
    return (
        {word: fmean(group[word].value for group in found) for word in words}
        if len(found) >= fewest
        else {}
    ), used


def lead(
    places: dict[Place, dict[str, Mean]], best: str, second: str
) -> tuple[list[float], float | None]:
    """By how much one way is ahead of another at each place, and half the interval that repeats give the mean of it."""
    both = [(group[best], group[second]) for group in places.values()]
    repeats = ([fact.value for fact in cell.scores] for pair in both for cell in pair)
    return [one.value - other.value for one, other in both], over_repeats(repeats, sides=2)


def listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def behind(cells: Iterable[Mean]) -> list[Score]:
    return [fact for cell in cells for fact in cell.scores]
