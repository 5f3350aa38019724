"""Predictions in, metrics of the task out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deadhead.errors import DataError

from .dataset import Dataset
from .metrics import METRICS, Labels
from .registry import task_of
from .task import Task


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

    A prediction is the labels of the words (tag), the label (classify) or the text (translate).
    """
    task = task_of(task)
    gold, predicted = gold_and_predicted(task, predictions, data)
    metrics = {name: METRICS[name] for name in task.metrics}
    signature = next((m.signature(data.lang) for m in metrics.values() if m.signature), "")
    values = {name: metric(gold, predicted, data.lang) for name, metric in metrics.items()}
    return MetricValues(values, signature)


def gold_and_predicted(
    task: Task, predictions: Sequence[Sequence[str] | str], data: Dataset
) -> tuple[Labels, Labels]:
    """Return both sides row by row, as metrics take them; an error where they do not fit."""
    texts = task.traits.label_unit == "text"
    gold: Labels = [row.texts[1:] if texts else row.labels for row in data.rows]
    predicted = [[p] if isinstance(p, str) else list(p) for p in predictions]
    where = f"{task.name} in {data.lang}"
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted)} predictions for {len(gold)} rows of {where}.")
    for number, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        if len(g) != len(p):
            raise DataError(f"row {number} of {where}: {len(p)} predictions for {len(g)} labels.")
    return gold, predicted
