"""What is lost by pruning: relative drops, their means over groups of languages, top against bottom, recovery.

A drop is in % of the score of the whole model. Where there are several seeds the scores are averaged
first. The group value is the mean of its members' drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.languages import group

Scores = float | Sequence[float]  # one score, or those of several seeds
PAPER = (
    "mbert-prunability"  # the paper whose classes of languages are meant, unless another is named
)


def drop(whole: Scores, pruned: Scores) -> float:
    """How much of the whole model's score is lost, in %.

    >>> drop(80.0, [78.0, 74.0])   # 100 (80 - 76) / 80
    5.0
    """
    before, after = float(np.mean(whole)), float(np.mean(pruned))
    if not before:
        raise DataError(
            "the whole model scores 0, of which nothing can be lost.",
            "give the score of a trained model",
        )
    return 100 * (before - after) / before


def groups(by: str | Mapping[str, Iterable[str]], paper: str = PAPER) -> dict[str, tuple[str, ...]]:
    """The members of each group: of a class of languages by its name (word_order, resource, family), or as given."""
    return (
        group(by, paper)
        if isinstance(by, str)
        else {name: tuple(members) for name, members in by.items()}
    )


def group_means(
    values: Mapping[str, float],
    by: str | Mapping[str, Iterable[str]] = "word_order",
    paper: str = PAPER,
) -> dict[str, float]:
    """The mean over the members of each group that have a value; a group without any is left out.

    >>> group_means({"en": 2.0, "de": 4.0, "ar": 9.0})
    {'SVO': 3.0, 'VSO': 9.0}
    """
    found = {
        name: [values[one] for one in members if one in values]
        for name, members in groups(by, paper).items()
    }
    return {name: float(np.mean(several)) for name, several in found.items() if several}


def grouped(
    values: Mapping[str, float],
    by: str | Mapping[str, Iterable[str]] = "word_order",
    paper: str = PAPER,
) -> dict[str, list[float]]:
    """The values of each group's members, as `ordered` takes them."""
    found = {
        name: [values[one] for one in members if one in values]
        for name, members in groups(by, paper).items()
    }
    return {name: several for name, several in found.items() if several}


class D(NamedTuple):
    """Top against bottom: the difference of the drops at every number of layers, and its mean."""

    by_k: dict[int, float]
    mean: float


def d(whole: Scores, top: Mapping[int, Scores], bottom: Mapping[int, Scores]) -> D:
    """The drop without the k bottom layers minus that without the k top layers: above 0 where the bottom matters more.

    >>> d(80.0, top={2: 78.0, 4: 72.0}, bottom={2: 76.0, 4: 64.0})
    D(by_k={2: 2.5, 4: 10.0}, mean=6.25)
    """
    both = sorted(top.keys() & bottom.keys())
    if not both:
        raise DataError(
            "no number of layers was pruned both from the top and from the bottom.",
            "score both with the same k",
        )
    by_k = {k: drop(whole, bottom[k]) - drop(whole, top[k]) for k in both}
    return D(by_k, float(np.mean(list(by_k.values()))))


def interpolate(curve: Mapping[float, float], at: float) -> float:
    """The value of a curve between two of its points, on the straight line that joins them.

    >>> interpolate({20: 1.0, 30: 2.0}, 25)
    1.5
    """
    xs = sorted(curve)
    if not xs or not xs[0] <= at <= xs[-1]:
        met = f"reaches from {xs[0]} to {xs[-1]}" if xs else "has no points"
        raise DataError(
            f"the curve {met}, and a value at {at} was asked for.",
            "ask within the curve, or measure further out",
        )
    return float(np.interp(at, xs, [curve[x] for x in xs]))


def spread(conditions: Iterable[Sequence[float]], *, ddof: int = 1) -> float:
    """The standard deviation over draws or seeds in % of their mean, averaged over conditions; those of one score are left out.

    >>> spread([[79.0, 80.0, 81.0], [40.0, 40.0, 40.0]])   # (100 * 1 / 80 + 0) / 2
    0.625
    """
    shares = [
        100 * float(np.std(several, ddof=ddof) / np.mean(several))
        for several in map(list, conditions)
        if len(several) > ddof
    ]
    if not shares:
        raise DataError("no condition has several scores.", "run each with several seeds or draws")
    return float(np.mean(shares))


def recovery(first: Sequence[float], final: Sequence[float]) -> float:
    """The share of the final score that is there after one epoch: the mean over runs and languages.

    >>> recovery([72.0, 60.0], [80.0, 60.0])   # (0.9 + 1.0) / 2
    0.95
    """
    if len(first) != len(final) or not len(first):
        raise DataError(
            f"{len(first)} scores after epoch 1 do not fit {len(final)} final ones.",
            "give both for every run",
        )
    return float(np.mean([one / end for one, end in zip(first, final, strict=True)]))


def drop_rows(curves: Mapping[str, Mapping[float, Scores]]) -> list[dict[str, Any]]:
    """For a figure of lines over the amount pruned; a line's value at 0 is the whole model.

    curves: scores by line (a task, a language) and amount.
    """
    rows = []
    for line, curve in curves.items():
        if 0 not in curve:
            raise DataError(
                f"{line} has no score of the whole model.",
                "give the scores of each line with 0 for nothing pruned",
            )
        rows += [
            {"line": line, "amount": x, "score": float(np.mean(y)), "drop": drop(curve[0], y)}
            for x, y in sorted(curve.items())
        ]
    return rows


def group_rows(
    curves: Mapping[str, Mapping[float, Scores]],
    by: str | Mapping[str, Iterable[str]] = "word_order",
    paper: str = PAPER,
) -> list[dict[str, Any]]:
    """For a figure with a line for each group of languages: the mean drop of its members at each amount."""
    at: dict[float, dict[str, float]] = {}
    for row in drop_rows(curves):
        at.setdefault(row["amount"], {})[row["line"]] = row["drop"]
    return [
        {
            "group": name,
            "amount": amount,
            "drop": float(np.mean(several)),
            "languages": len(several),
        }
        for amount, drops in sorted(at.items())
        for name, several in grouped(drops, by, paper).items()
    ]


def d_rows(found: Mapping[str, D]) -> list[dict[str, Any]]:
    """For a figure of top against bottom, with a line for each language or group."""
    return [
        {"line": line, "k": k, "d": value}
        for line, one in found.items()
        for k, value in one.by_k.items()
    ]


def recovery_rows(first: Mapping[str, float], final: Mapping[str, float]) -> list[dict[str, Any]]:
    """For a figure of bars: what each language has after one epoch, and in the end."""
    return [
        {
            "language": one,
            "first": first[one],
            "final": final[one],
            "share": first[one] / final[one],
        }
        for one in first
        if one in final
    ]
