"""What pruning costs: relative drops, their means over groups of languages, and recovery.

A drop is in % of the score of the unpruned model. Scores of several seeds are averaged first. The
value of a group is the mean of its members' drops.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.languages import group

SeedScores = float | Sequence[float]  # one score, or those of several seeds
Groups = str | Mapping[str, Iterable[str]]  # the name of a class of languages, or the groups
PAPER = "mbert-prunability"  # whose classes of languages are used by default


def drop(whole: SeedScores, pruned: SeedScores) -> float:
    """How much of the unpruned model's score is lost, in %.

    >>> drop(80.0, [78.0, 74.0])   # 100 (80 - 76) / 80
    5.0
    """
    before, after = float(np.mean(whole)), float(np.mean(pruned))
    if not before:
        raise DataError(
            "the unpruned model scores 0, so a drop in % is not defined.",
            "give the score of a trained model",
        )
    return 100 * (before - after) / before


def grouped(
    values: Mapping[str, float], by: Groups = "word_order", paper: str = PAPER
) -> dict[str, list[float]]:
    """The values of each group's members, as `ordered` takes them; empty groups are left out.

    by: the name of a class of languages (word_order, resource, family), or the groups themselves.
    """
    members = group(by, paper) if isinstance(by, str) else by
    groups = {
        name: [values[language] for language in languages if language in values]
        for name, languages in members.items()
    }
    return {name: numbers for name, numbers in groups.items() if numbers}


def group_means(
    values: Mapping[str, float], by: Groups = "word_order", paper: str = PAPER
) -> dict[str, float]:
    """The mean over the members of each group that have a value.

    >>> group_means({"en": 2.0, "de": 4.0, "ar": 9.0})
    {'SVO': 3.0, 'VSO': 9.0}
    """
    groups = grouped(values, by, paper)
    return {name: float(np.mean(numbers)) for name, numbers in groups.items()}


class LayerDifference(NamedTuple):
    """Bottom minus top: the difference of the drops at each number of layers, and its mean."""

    by_k: dict[float, float]
    mean: float


def bottom_minus_top(
    whole: SeedScores, top: Mapping[float, SeedScores], bottom: Mapping[float, SeedScores]
) -> LayerDifference:
    """The drop without the k bottom layers minus the drop without the k top layers.

    Above 0 where the bottom layers matter more.

    >>> bottom_minus_top(80.0, top={2: 78.0, 4: 72.0}, bottom={2: 76.0, 4: 64.0})
    LayerDifference(by_k={2: 2.5, 4: 10.0}, mean=6.25)
    """
    both = sorted(top.keys() & bottom.keys())
    if not both:
        raise DataError(
            "no number of layers was pruned both from the top and from the bottom.",
            "score both with the same k",
        )
    by_k = {k: drop(whole, bottom[k]) - drop(whole, top[k]) for k in both}
    return LayerDifference(by_k, float(np.mean(list(by_k.values()))))


def interpolate(curve: Mapping[float, float], at: float) -> float:
    """The value of a curve between two of its points, on the straight line that joins them.

    >>> interpolate({20: 1.0, 30: 2.0}, 25)
    1.5
    """
    xs = sorted(curve)
    if not xs or not xs[0] <= at <= xs[-1]:
        extent = f"has points from {xs[0]} to {xs[-1]}" if xs else "has no points"
        raise DataError(
            f"the curve {extent}; it has no value at {at}.",
            "choose a value within the curve, or measure more points",
        )
    return float(np.interp(at, xs, [curve[x] for x in xs]))


def spread(conditions: Iterable[Sequence[float]]) -> float:
    """The standard deviation over draws or seeds in % of their mean, averaged over conditions.

    Conditions with a single score are left out.

    >>> spread([[79.0, 80.0, 81.0], [40.0, 40.0, 40.0]])   # (100 * 1 / 80 + 0) / 2
    0.625
    """
    shares = [
        100 * float(np.std(scores, ddof=1) / np.mean(scores))
        for scores in map(list, conditions)
        if len(scores) > 1
    ]
    if not shares:
        raise DataError("no condition has several scores.", "run each with several seeds or draws")
    return float(np.mean(shares))


def recovery(first: Sequence[float], final: Sequence[float]) -> float:
    """The share of the final score reached after one epoch: the mean over runs and languages.

    >>> recovery([72.0, 60.0], [80.0, 60.0])   # (0.9 + 1.0) / 2
    0.95
    """
    if len(first) != len(final) or not len(first):
        raise DataError(
            f"got {len(first)} scores after epoch 1 and {len(final)} final scores.",
            "give both for every run",
        )
    return float(np.mean([early / late for early, late in zip(first, final, strict=True)]))
