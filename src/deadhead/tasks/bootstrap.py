"""Predictions in, metrics of the task out, and how certain they are.

For an interval, rows are resampled with replacement, and each sample is scored.
Rows (sentences, pairs) are resampled, never words or spans: those of one sentence are not
independent. Two models are compared on the same samples (the paired bootstrap), so that what is
hard for both cancels out. Intervals are percentiles. The p-value says how often samples of two
equally good models would be at least as far apart, in either direction: it counts differences
around their mean (as in sacrebleu, but two-sided). No torch here.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadhead.errors import DataError, Notice, unknown_name

from .dataset import Dataset
from .metrics import METRICS, Labels, Metric
from .registry import task_of
from .task import CHOICE_METRICS, Task

RESAMPLES, LEVEL = 1000, 0.95
FEW = 20  # rows: percentiles of samples of fewer are too close together to be an interval
AT_ONCE = 4_000_000  # row numbers drawn at a time


class MetricValues(dict[str, float]):
    """Values by metric, with the `signature` that BLEU needs beside its number."""

    def __init__(self, values: Mapping[str, float], signature: str = ""):
        super().__init__(values)
        self.signature = signature

    def __repr__(self) -> str:
        return super().__repr__() + (f" ({self.signature})" if self.signature else "")


def score(
    task: Task | str, predictions: Sequence[Sequence[str] | str], data: Dataset
) -> MetricValues:
    """Compute every metric of the task, for predictions in the order of the rows.

    A prediction is the labels of the words (tag), the label (classify) or the text (translate, qa);
    for lm the WINDOW_COUNTS of each window; for choice the numbers of three options: the most
    likely one, that per character, and that per byte; for similarity a number; for retrieval the
    ids of documents, the best first.
    """
    task = task_of(task)
    gold, predicted = gold_and_predicted(task, predictions, data)
    metrics = {name: METRICS[name] for name in task.metrics}
    signature = next((m.signature(data.lang) for m in metrics.values() if m.signature), "")
    if any(metric.compares == "numbers" for metric in metrics.values()):
        _note_no_correlation(gold, predicted, data)
    values = {name: metric(gold, predicted, data.lang) for name, metric in metrics.items()}
    return MetricValues(values, signature)


def _note_no_correlation(gold: Labels, predicted: Labels, data: Dataset) -> None:
    """Give a notice where a correlation is undefined: its value is then 0."""
    equal = [
        name
        for name, side in (("of the data", gold), ("of the model", predicted))
        if len({float(scores[0]) for scores in side}) < 2
    ]
    if equal:
        whose = (
            f"all scores {equal[0]} are equal"
            if len(gold) > 1
            else "there are fewer than two pairs"
        )
        text = f"{data.lang} {data.split}: no correlation, which is reported as 0: {whose}."
        warnings.warn(Notice(text), stacklevel=3)


def gold_and_predicted(
    task: Task, predictions: Sequence[Sequence[str] | str], data: Dataset
) -> tuple[Labels, Labels]:
    """Return both sides row by row, as metrics take them; an error where they do not fit."""
    if task.traits.label_unit == "token":
        return [], predictions  # numbers of windows, which are not rows
    texts = task.traits.label_unit == "text"
    gold: Labels = [row.texts[1:] if texts else row.labels for row in data.rows]
    if task.traits.label_unit == "span":
        gold = [row.answers for row in data.rows]
    if task.traits.label_unit == "option":
        gold = [tuple(labels) * len(CHOICE_METRICS) for labels in gold]
    predicted = [[p] if isinstance(p, str) else list(p) for p in predictions]
    where = f"{task.name} in {data.lang}"
    if len(predicted) != len(gold):
        message = (
            f"{where}: expected {len(gold)} predictions, one for each row, got {len(predicted)}."
        )
        raise DataError(message, "predict the rows of this data set again")
    for number, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        unit = task.traits.label_unit
        # one of several answers, or any number of documents
        expected = {"span": 1, "query": len(p)}.get(unit, len(g))
        if len(p) != expected:
            message = f"row {number} of {where}: expected {expected} predictions, got {len(p)}."
            raise DataError(message, "give a prediction for each label of the row")
    return gold, predicted


@dataclass(frozen=True)
class Interval:
    """A score, or a difference of scores, with its confidence interval."""

    value: float
    low: float
    high: float
    p: float | None = None  # for a difference
    draws: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    rows: int = 0  # that were drawn from; for a mean, of the smallest set

    @property
    def is_certain(self) -> bool:
        """Whether the samples say how certain the score is.

        They do not if there are few rows, nor if all of them score the same: four right answers of
        four do not show that all answers are right.
        """
        return self.rows >= FEW and (self.low < self.high or self.p is not None)

    def to_dict(self) -> dict[str, float | None]:
        """The numbers; None for those that the samples do not give."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        numbers |= {} if self.p is None else {"p": self.p}
        return {n: v if self.is_certain or n == "value" else None for n, v in numbers.items()}


def bootstrap(
    predictions: Sequence[Any],
    data: Dataset,
    task: str | Task | None = None,
    *,
    metric: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return a metric of predictions (as `score` takes them) with its confidence interval.

    task, metric: by default the task of the data, and its first metric.
    seed: equal seeds draw equal rows of equal data, so `difference` can compare two models.
    """
    if resamples < 1:
        message = f"`resamples` expects 1 or more, got {resamples}."
        raise DataError(message, f"for instance {RESAMPLES}")
    task = task_of(data.task if task is None else task)
    name = task.metric if metric is None else metric
    if name not in task.metrics:
        raise unknown_name(f"metric of {task.name}", name, task.metrics)
    if not len(data):
        message = f"{data.lang} {data.split} has no rows to draw from."
        raise DataError(message, "load a split that has rows")
    known = METRICS[name]
    counts = known.counts(*gold_and_predicted(task, predictions, data), data.lang)
    draws = known.value(_sums(known, counts, resamples, seed))
    return _interval(known.of_all(counts), draws, rows=len(counts))


def _sums(metric: Metric, counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Sum the counts over each sample, which has as many rows as the data: resamples x numbers."""
    rng = np.random.default_rng(seed)
    rows = len(counts)
    step = max(1, AT_ONCE // rows)
    sums = []
    for begin in range(0, resamples, step):
        samples = rng.choice(rows, size=(min(step, resamples - begin), rows), replace=True)
        times = np.stack([np.bincount(sample, minlength=rows) for sample in samples])
        sums.append(metric.sums(counts, times))
    return np.concatenate(sums)


def _interval(value: float, draws: np.ndarray, p: float | None = None, *, rows: int) -> Interval:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high), p, draws, rows)


def difference(first: Interval, other: Interval) -> Interval:
    """Return how much higher the other is, on the same samples, with a two-sided p-value."""
    if len(first.draws) != len(other.draws) or not len(first.draws):
        times = f"{len(first.draws)} and {len(other.draws)} times"
        hint = "give both the same data, resamples and seed"
        raise DataError(f"the two scores were drawn {times}.", hint)
    value, draws = other.value - first.value, other.draws - first.draws
    farther = np.abs(draws - draws.mean()) >= abs(value)
    p = (int(farther.sum()) + 1) / (len(draws) + 1)
    return _interval(value, draws, p, rows=min(first.rows, other.rows))


def mean(intervals: Sequence[Interval]) -> Interval:
    """Return the mean of scores on several sets (languages), each resampled by itself."""
    draws = np.mean([interval.draws for interval in intervals], axis=0)
    value, rows = float(np.mean([i.value for i in intervals])), min(i.rows for i in intervals)
    return _interval(value, draws, rows=rows)


def side_by_side(models: Mapping[str, Mapping[str, Interval]]) -> dict[str, dict[str, Interval]]:
    """Return for each model but the first how far it is from the first on each set."""
    (_, first), *others = models.items()
    return {
        name: {lang: difference(first[lang], own) for lang, own in sets.items()}
        for name, sets in others
    }
