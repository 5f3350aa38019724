"""METRICS: everything about each metric in one place. No torch, no seqeval.

A metric is computed in two parts: counts of each row, which add up over rows, and the value of
their sum. So rows can be resampled for a confidence interval (`bootstrap.py`). Its descriptor also
says how its numbers are printed (`scale`, `label`, `meaning`) and what it compares. A new metric is
one entry of METRICS; `evaluate`, tables and pages take the rest from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import eq

import numpy as np

from .bleu import bleu_of, bleu_signature, ngram_counts
from .spans import find_spans

Labels = Sequence[Sequence[str]]  # for each row its labels: one for each word, or just one


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is computed, how its numbers are printed, and which tasks can use it."""

    counts: Callable[[Labels, Labels, str], np.ndarray]
    """(gold, predicted, language) -> an array of rows x numbers that add up over rows"""
    value: Callable[[np.ndarray], np.ndarray]  # the metric of such sums, along the last axis
    label: str  # its name in tables, figures and sentences
    meaning: str = ""  # what it counts, where the label does not say it
    scale: float = 100.0  # points = scale x value: 100 for a share of 1, 1 for BLEU
    compares: str = "labels"  # or `spans` (tags with prefixes), or `texts` (translations)
    signature: Callable[[str], str] | None = None  # language -> details printed with the number

    def __call__(self, gold: Labels, predicted: Labels, lang: str = "") -> float:
        return float(self.value(self.counts(gold, predicted, lang).sum(0)))


def points(metric: str, value: float) -> float:
    """Return a value of a metric in points, as tables print it; unknown metrics are shares of 1."""
    return value * (METRICS[metric].scale if metric in METRICS else 100.0)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide, with 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) != 0)


def _right_labels(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Count for each row the labels that are right, and all labels."""
    counts = [(sum(map(eq, g, p)), len(g)) for g, p in zip(gold, predicted, strict=True)]
    return np.array(counts, float).reshape(-1, 2)


def _counts_by_label(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Count for each row and label: right, gold and predicted (three blocks of columns)."""
    true, guess = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    numbers = {label: i for i, label in enumerate(dict.fromkeys([*true, *guess]))}
    rows = np.repeat(np.arange(len(gold)), [len(labels) for labels in gold])
    t, g = (np.array([numbers[label] for label in side], int) for side in (true, guess))
    table = np.zeros((3, len(gold), len(numbers)))
    np.add.at(table[0], (rows[t == g], t[t == g]), 1)
    np.add.at(table[1], (rows, t), 1)
    np.add.at(table[2], (rows, g), 1)
    return np.concatenate(list(table), axis=1)


def _mean_f1(sums: np.ndarray) -> np.ndarray:
    """Return the mean F1 of the labels that occur, each with the same weight."""
    right, true, guess = np.split(sums, 3, axis=-1)
    occurs = true + guess > 0
    return _ratio(_ratio(2 * right, true + guess).sum(-1), occurs.sum(-1))


def _span_counts(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Count for each row its spans: right, gold and predicted.

    Like seqeval, walk through all rows as one text with an `O` after each row; a span belongs to
    the row it ends in. No two spans end at the same word, so spans are matched by their ends.
    """
    types: dict[str, int] = {}
    true, guess = (
        find_spans([tag for tags in side for tag in (*tags, "O")], types)
        for side in (gold, predicted)
    )
    both_true = true[np.isin(true[:, 0], guess[:, 0])]
    both_guess = guess[np.isin(guess[:, 0], true[:, 0])]
    right = both_true[(both_true == both_guess).all(1)]
    row_ends = np.cumsum([len(tags) + 1 for tags in gold])
    counts = [
        np.bincount(np.searchsorted(row_ends, side[:, 0], side="right"), minlength=len(gold))
        for side in (right, true, guess)
    ]
    return np.stack(counts, 1).astype(float)


def _bleu(label: str, tokens: str = "intl", lowercase: bool = False) -> Metric:
    """Return a BLEU: cased unless `lowercase`, on international or other tokens."""
    return Metric(
        counts=partial(ngram_counts, tokens=tokens, lowercase=lowercase),
        value=bleu_of,
        label=label,
        scale=1.0,
        compares="texts",
        signature=partial(bleu_signature, tokens=tokens, lowercase=lowercase),
    )


_SPAN_F1 = Metric(
    counts=_span_counts,
    value=lambda sums: _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2]),
    label="span F1",
    meaning="a span counts where its ends and its type are right",
    compares="spans",
)
_ACCURACY = Metric(
    counts=_right_labels, value=lambda sums: _ratio(sums[..., 0], sums[..., 1]), label="accuracy"
)

METRICS: dict[str, Metric] = {
    "accuracy": _ACCURACY,
    "micro_f1": replace(
        _ACCURACY,
        label="micro F1",
        meaning="over all words, which is the share of words labelled right",
    ),
    "macro_f1": Metric(
        counts=_counts_by_label,
        value=_mean_f1,
        label="macro F1",
        meaning="the mean over labels, rare ones counting as much as frequent ones",
    ),
    "span_f1": _SPAN_F1,
    "span_precision": replace(
        _SPAN_F1,
        value=lambda sums: _ratio(sums[..., 0], sums[..., 2]),
        label="span precision",
        meaning="",
    ),
    "span_recall": replace(
        _SPAN_F1,
        value=lambda sums: _ratio(sums[..., 0], sums[..., 1]),
        label="span recall",
        meaning="",
    ),
    "chunk_f1": replace(
        _SPAN_F1,
        label="chunk F1",
        meaning="a chunk counts where its ends and its type are right",
        compares="labels",  # any tags, with or without prefixes
    ),
    "bleu": _bleu("BLEU"),
    "bleu_13a": _bleu("BLEU (13a)", tokens="13a"),
    "bleu_uncased": _bleu("BLEU (uncased)", lowercase=True),
}
