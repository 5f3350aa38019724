"""How sure a score is: the rows are drawn again, with replacement, and the metric is computed of each draw.

Rows (sentences, pairs) are drawn, never words or spans: those of one sentence are not independent.
Two models are compared on the same draws (the paired bootstrap), so that what is hard for both cancels
out. Intervals are of percentiles. The p-value asks how often a draw of two equally good models would
be at least as far apart, in either direction: differences of the draws around their mean (as sacrebleu
does it, but two-sided). No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadhead.errors import DataError, unknown_name

from .dataset import Dataset
from .metrics import METRICS
from .registry import task_of
from .score import gold_and_predicted
from .task import Task

RESAMPLES, LEVEL = 1000, 0.95
AT_ONCE = 4_000_000  # row numbers drawn in one go


@dataclass(frozen=True)
class Interval:
    """A score, or a difference of scores, with what the draws say about it."""

    value: float
    low: float
    high: float
    p: float | None = None  # of a difference
    draws: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    def to_dict(self) -> dict[str, float]:
        found = {"value": self.value, "low": self.low, "high": self.high}
        return found if self.p is None else {**found, "p": self.p}


def bootstrap(
    predictions: Sequence[Any],
    data: Dataset,
    task: str | Task | None = None,
    *,
    metric: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Interval:
    """A metric of predictions (as `score` takes them) with its confidence interval.

    task, metric: by default the task of the data, and its first metric.
    seed: the same seed draws the same rows of the same data, so that intervals of two models can be told apart by `difference`.
    """
    if resamples < 1:
        raise DataError(f"resamples is {resamples}.", f"give 1 or more, such as {RESAMPLES}")
    if not 0 < level < 1:
        raise DataError(f"level is {level}.", f"give a share of 1, such as {LEVEL}")
    about = task_of(data.task if task is None else task)
    name = about.metric if metric is None else metric
    if name not in about.metrics:
        raise unknown_name(f"metric of {about.name}", name, about.metrics)
    if not len(data):
        raise DataError(
            f"{data.lang} {data.split} has no rows to draw from.", "load a split that has rows"
        )
    gold, guessed = gold_and_predicted(about, predictions, data)
    counts = METRICS[name].counts(gold, guessed, data.lang)
    draws = METRICS[name].value(_sums(counts, resamples, seed))
    return _interval(float(METRICS[name].value(counts.sum(0))), draws, level)


def _sums(counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The counts summed over each draw of as many rows as there are: resamples x numbers."""
    rng = np.random.default_rng(seed)
    rows = len(counts)
    each = max(1, AT_ONCE // rows)
    sums = []
    for begin in range(0, resamples, each):
        numbers = rng.choice(rows, size=(min(each, resamples - begin), rows), replace=True)
        times = np.stack([np.bincount(one, minlength=rows) for one in numbers])
        sums.append(times @ counts)
    return np.concatenate(sums)


def _interval(value: float, draws: np.ndarray, level: float, p: float | None = None) -> Interval:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), p, draws)


def difference(first: Interval, other: Interval, *, level: float = LEVEL) -> Interval:
    """How much higher the other is, from the same draws of the same data; with a two-sided p-value."""
    if len(first.draws) != len(other.draws) or not len(first.draws):
        raise DataError(
            f"the two scores were drawn {len(first.draws)} and {len(other.draws)} times.",
            "give both the same data, resamples and seed",
        )
    value, draws = other.value - first.value, other.draws - first.draws
    apart = np.abs(draws - draws.mean()) >= abs(value)
    return _interval(value, draws, level, (int(apart.sum()) + 1) / (len(draws) + 1))


def mean(intervals: Sequence[Interval], *, level: float = LEVEL) -> Interval:
    """The mean of scores on several sets (languages), each drawn by itself."""
    draws = np.mean([one.draws for one in intervals], axis=0)
    return _interval(float(np.mean([one.value for one in intervals])), draws, level)


def side_by_side(
    models: Mapping[str, Mapping[str, Interval]], *, level: float = LEVEL
) -> dict[str, dict[str, Interval]]:
    """For each model but the first, how far it is from the first on each set."""
    first, *others = models
    return {
        name: {
            lang: difference(models[first][lang], one, level=level)
            for lang, one in models[name].items()
        }
        for name in others
    }
