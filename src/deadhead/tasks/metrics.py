"""The numbers: METRICS says of each metric how it is computed and whether it is a share. No torch, no seqeval.

A metric is made of counts that add up over rows and of the value of their sum, so that rows can be
drawn again and again for a confidence interval (`bootstrap.py`). Most are shares between 0 and 1;
`bleu` is sacrebleu's 0 to 100 (cased, on international tokens), and with it `bleu_13a` (the tokens
most papers use) and `bleu_uncased`. `points` is the one place that turns either into points of 100.
Spans follow the semantics of conlleval and seqeval: a span begins at `B-`, at `S-`, and wherever the
type changes; it counts only if type and both ends agree. `chunk_f1` is the same on tags without
prefix, just as seqeval computes it: its reading of the first letter as a prefix makes every SYM a
chunk of its own, CCONJ equal to SCONJ, and lets an X at the start of a sentence begin too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import eq
from typing import Any

import numpy as np

from deadhead.errors import DataError, MissingExtra

from .dataset import Dataset
from .registry import Task, task_of

Labels = Sequence[Sequence[str]]  # for each row its labels: one for each word, or just one

# How texts in these languages are cut into words before n-grams are counted, whatever is asked for.
BLEU_TOKENS = {"zh": "zh", "ja": "char", "th": "char"}
ORDERS = 4  # n-grams that BLEU counts


@dataclass(frozen=True)
class Metric:
    """How a metric is computed, and how its numbers are to be shown."""

    counts: Callable[
        [Labels, Labels, str], np.ndarray
    ]  # gold, predicted, language -> rows x numbers, which add up over rows
    value: Callable[[np.ndarray], np.ndarray]  # the metric of such sums, along the last axis
    share: bool = True  # between 0 and 1; else in points of 100 already
    signature: Callable[[str], str] | None = (
        None  # for texts: how they were compared, given the language
    )

    def __call__(self, gold: Labels, predicted: Labels, lang: str = "") -> float:
        return float(self.value(self.counts(gold, predicted, lang).sum(0)))

    @property
    def of_texts(self) -> bool:
        """Whether it compares texts (translations), not labels."""
        return self.signature is not None


def points(metric: str, value: float) -> float:
    """A number of a metric in points of 100, as tables show it; a name that is not known is taken as a share."""
    return value if metric in METRICS and not METRICS[metric].share else 100 * value


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Their ratio, and 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) != 0)


def _right_labels(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Of each row the labels that are right, and all labels."""
    found = [(sum(map(eq, g, p)), len(g)) for g, p in zip(gold, predicted, strict=True)]
    return np.array(found, float).reshape(-1, 2)


def _by_label(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Of each row how often each label is right, wanted and given: all right ones, then all wanted, then all given."""
    wanted, given = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    numbers = {label: i for i, label in enumerate(dict.fromkeys([*wanted, *given]))}
    rows = np.repeat(np.arange(len(gold)), [len(labels) for labels in gold])
    sides = [np.array([numbers[label] for label in side], int) for side in (wanted, given)]
    table = np.zeros((3, len(gold), len(numbers)))
    same = sides[0] == sides[1]
    for number, (row, label) in enumerate(
        ((rows[same], sides[0][same]), (rows, sides[0]), (rows, sides[1]))
    ):
        np.add.at(table[number], (row, label), 1)
    return np.concatenate(list(table), axis=1)


def _mean_f1(sums: np.ndarray) -> np.ndarray:
    """The mean F1 of the labels that occur, each counting the same."""
    right, wanted, given = np.split(sums, 3, axis=-1)
    occurs = wanted + given > 0
    return _ratio(_ratio(2 * right, wanted + given).sum(-1), occurs.sum(-1))


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Type, first and last word of each span of a sentence."""
    names: dict[str, int] = {}
    last, kind, start = _spans(tags, names)
    kinds = list(names)
    return [
        (kinds[k], a, b)
        for k, a, b in zip(kind.tolist(), start.tolist(), last.tolist(), strict=True)
    ]


def _spans(tags: Sequence[str], names: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last word, the type (its number in `names`, which grows) and the first word of each span, in their order."""
    number = {tag: i for i, tag in enumerate(dict.fromkeys(["O", *tags]))}
    table = np.array(
        [
            (ord(tag[0]), names.setdefault(tag[1:].split("-", 1)[-1] or "_", len(names)))
            for tag in number
        ]
    )
    letters, kinds = table[
        [0, *map(number.__getitem__, tags), 0]
    ].T  # with an O before and an O after
    kinds[0] = -1  # before the first word there is no type
    (old, new), (old_kind, new_kind) = ((side[:-1], side[1:]) for side in (letters, kinds))
    changed = old_kind != new_kind
    ends = (
        _among(old, "ES")
        | (_among(old, "BI") & _among(new, "BSO"))
        | (~_among(old, "O.") & changed)
    )
    begins = (
        _among(new, "BS")
        | (_among(new, "EI") & _among(old, "ESO"))
        | (~_among(new, "O.") & changed)
    )
    begins[0] = True  # what ends without having begun is counted from the first word
    end, begin = np.flatnonzero(ends), np.flatnonzero(begins)
    return end - 1, old_kind[end], begin[np.searchsorted(begin, end) - 1]


def _among(letters: np.ndarray, wanted: str) -> np.ndarray:
    return np.isin(letters, [ord(one) for one in wanted])


def _span_counts(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Spans of each row that are right, wanted and given. All rows are walked one after the other with an `O` after
    each, as seqeval walks them; a span belongs to the row it ends in."""
    names: dict[str, int] = {}
    true, found = (
        np.stack(_spans([tag for tags in side for tag in (*tags, "O")], names), 1)
        for side in (gold, predicted)
    )
    here = (
        np.isin(true[:, 0], found[:, 0]),
        np.isin(found[:, 0], true[:, 0]),
    )  # no two spans end at the same word
    right = true[here[0]][(true[here[0]] == found[here[1]]).all(1)]
    ends = np.cumsum([len(tags) + 1 for tags in gold])
    sides = (
        np.bincount(np.searchsorted(ends, side[:, 0], side="right"), minlength=len(gold))
        for side in (right, true, found)
    )
    return np.stack(list(sides), 1).astype(float)


def _ngram_counts(
    gold: Labels, predicted: Labels, lang: str, tokens: str = "intl", lowercase: bool = False
) -> np.ndarray:
    """Of each text its length, that of the reference, its right n-grams and all its n-grams, as sacrebleu counts them."""
    metric = _sacrebleu(lang, tokens, lowercase)
    references, texts = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    if texts:
        metric.corpus_score(texts, [references])  # warns of texts that look tokenised already
    found = []
    for g, p in zip(references, texts, strict=True):
        one = metric.corpus_score([p], [[g]])
        found.append([one.sys_len, one.ref_len, *one.counts, *one.totals])
    return np.array(found, float).reshape(-1, 2 + 2 * ORDERS)


def _bleu_of(sums: np.ndarray) -> np.ndarray:
    from sacrebleu.metrics import BLEU

    def one(row: np.ndarray) -> float:
        counts = [int(n) for n in row]
        right, every = counts[2 : 2 + ORDERS], counts[2 + ORDERS :]
        return float(
            BLEU.compute_bleu(right, every, counts[0], counts[1], smooth_method="exp").score
        )

    return np.apply_along_axis(one, -1, sums)


def bleu_signature(lang: str = "", tokens: str = "intl", lowercase: bool = False) -> str:
    """How the BLEU was computed, in sacrebleu's words, to be printed beside the number."""
    metric = _sacrebleu(lang, tokens, lowercase)
    metric.corpus_score(["a"], [["a"]])  # the signature is only known once something was scored
    return str(metric.get_signature())


def _sacrebleu(lang: str, tokens: str, lowercase: bool):  # type: ignore[no-untyped-def]
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise MissingExtra("sacrebleu", "translation", "BLEU") from error
    return BLEU(tokenize=BLEU_TOKENS.get(lang.rpartition("-")[2], tokens), lowercase=lowercase)


def _bleu(tokens: str = "intl", lowercase: bool = False) -> Metric:
    how: dict[str, Any] = {"tokens": tokens, "lowercase": lowercase}
    return Metric(
        partial(_ngram_counts, **how),
        _bleu_of,
        share=False,
        signature=partial(bleu_signature, **how),
    )


accuracy = Metric(
    _right_labels, lambda sums: _ratio(sums[..., 0], sums[..., 1])
)  # over words this is the micro F1 too
macro_f1 = Metric(_by_label, _mean_f1)
span_f1 = Metric(
    _span_counts, lambda sums: _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])
)  # micro, over spans
span_precision = Metric(_span_counts, lambda sums: _ratio(sums[..., 0], sums[..., 2]))
span_recall = Metric(_span_counts, lambda sums: _ratio(sums[..., 0], sums[..., 1]))
bleu = _bleu()  # of texts, each a row of one

METRICS: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "micro_f1": accuracy,
    "macro_f1": macro_f1,
    "span_f1": span_f1,
    "span_precision": span_precision,
    "span_recall": span_recall,
    "chunk_f1": span_f1,
    "bleu": bleu,
    "bleu_13a": _bleu(tokens="13a"),
    "bleu_uncased": _bleu(lowercase=True),
}


class Measured(dict[str, float]):
    """Metrics by name, with the `signature` of those that need one said beside the number (BLEU); shown with it."""

    def __init__(self, numbers: Mapping[str, float], signature: str = ""):
        super().__init__(numbers)
        self.signature = signature

    def __repr__(self) -> str:
        return super().__repr__() + (f" ({self.signature})" if self.signature else "")


def score(task: Task | str, predictions: Sequence[Sequence[str] | str], data: Dataset) -> Measured:
    """Every metric of the task, for predictions in the order of the rows.

    A prediction is the labels of the words (tag), the label (classify) or the text (translate).
    """
    task = task_of(task)
    gold, guessed = sides(task, predictions, data)
    signature = next(
        (sign(data.lang) for name in task.metrics if (sign := METRICS[name].signature)), ""
    )
    return Measured(
        {name: METRICS[name](gold, guessed, data.lang) for name in task.metrics}, signature
    )


def sides(
    task: Task, predictions: Sequence[Sequence[str] | str], data: Dataset
) -> tuple[Labels, Labels]:
    """What is right and what was predicted, row by row, in the form that metrics take; an error where they do not fit."""
    gold: Labels = (
        [row.texts[1:] for row in data.rows]
        if task.kind == "translate"
        else [row.labels for row in data.rows]
    )
    guessed = [[one] if isinstance(one, str) else list(one) for one in predictions]
    if len(guessed) != len(gold):
        raise DataError(
            f"{len(guessed)} predictions for {len(gold)} rows of {task.name} in {data.lang}."
        )
    for number, (g, p) in enumerate(zip(gold, guessed, strict=True)):
        if len(g) != len(p):
            raise DataError(
                f"row {number} of {task.name} in {data.lang}: {len(p)} predictions for {len(g)} labels."
            )
    return gold, guessed
