"""The numbers: METRICS maps a name to a function of gold and predicted labels. No torch, no seqeval.

All are shares between 0 and 1, higher is better, except `bleu`, which is sacrebleu's 0 to 100 (cased, on
international tokens), and with it `bleu_13a` (the tokens most papers use) and `bleu_uncased`.
Spans follow the semantics of conlleval and seqeval: a span begins at `B-`, at `S-`, and wherever the
type changes; it counts only if type and both ends agree. `chunk_f1` is the same on tags without
prefix, just as seqeval computes it: its reading of the first letter as a prefix makes every SYM a
chunk of its own, CCONJ equal to SCONJ, and lets an X at the start of a sentence begin too early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import eq

import numpy as np

from ..errors import DataError, MissingExtra
from .dataset import Dataset
from .table import Task, task_of

Labels = Sequence[Sequence[str]]  # for each row its labels: one for each word, or just one

# How texts in these languages are cut into words before n-grams are counted, whatever is asked for.
BLEU_TOKENS = {"zh": "zh", "ja": "char", "th": "char"}


def accuracy(gold: Labels, predicted: Labels) -> float:
    """The share of labels that are right; over words this is the micro F1 too."""
    wanted, given = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    return sum(map(eq, wanted, given)) / len(wanted) if wanted else 0.0


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """The mean F1 of the labels that occur, each counting the same."""
    right, wanted, given = Counter[str](), Counter[str](), Counter[str]()
    pairs = Counter(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
    for (g, p), times in pairs.items():
        wanted[g] += times
        given[p] += times
        right[g] += times * (g == p)
    scores = [2 * right[label] / (wanted[label] + given[label]) for label in wanted | given]
    return sum(scores) / len(scores) if scores else 0.0


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Type, first and last word of each span of a sentence."""
    names: dict[str, int] = {}
    last, kind, start = _spans(tags, names)
    kinds = list(names)
    return [(kinds[k], a, b) for k, a, b in zip(kind.tolist(), start.tolist(), last.tolist(), strict=True)]


def _spans(tags: Sequence[str], names: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last word, the type (its number in `names`, which grows) and the first word of each span, in their order."""
    number = {tag: i for i, tag in enumerate(dict.fromkeys(["O", *tags]))}
    table = np.array([(ord(tag[0]), names.setdefault(tag[1:].split("-", 1)[-1] or "_", len(names))) for tag in number])
    letters, kinds = table[[0, *map(number.__getitem__, tags), 0]].T  # with an O before and an O after
    kinds[0] = -1  # before the first word there is no type
    (old, new), (old_kind, new_kind) = ((side[:-1], side[1:]) for side in (letters, kinds))
    changed = old_kind != new_kind
    ends = _among(old, "ES") | (_among(old, "BI") & _among(new, "BSO")) | (~_among(old, "O.") & changed)
    begins = _among(new, "BS") | (_among(new, "EI") & _among(old, "ESO")) | (~_among(new, "O.") & changed)
    begins[0] = True  # what ends without having begun is counted from the first word
    end, begin = np.flatnonzero(ends), np.flatnonzero(begins)
    return end - 1, old_kind[end], begin[np.searchsorted(begin, end) - 1]


def _among(letters: np.ndarray, wanted: str) -> np.ndarray:
    return np.isin(letters, [ord(one) for one in wanted])


def _counted(gold: Labels, predicted: Labels) -> tuple[int, int, int]:
    """Spans that are right, wanted and given, over all sentences in a row with an `O` after each, as seqeval walks them."""
    names: dict[str, int] = {}
    true, found = (np.stack(_spans([tag for tags in side for tag in (*tags, "O")], names), 1) for side in (gold, predicted))
    here = np.isin(true[:, 0], found[:, 0]), np.isin(found[:, 0], true[:, 0])  # no two spans end at the same word
    return int((true[here[0]] == found[here[1]]).all(1).sum()), len(true), len(found)


def span_f1(gold: Labels, predicted: Labels) -> float:
    """Micro F1 over spans."""
    right, wanted, given = _counted(gold, predicted)
    return 2 * right / (wanted + given) if wanted + given else 0.0


def span_precision(gold: Labels, predicted: Labels) -> float:
    right, _, given = _counted(gold, predicted)
    return right / given if given else 0.0


def span_recall(gold: Labels, predicted: Labels) -> float:
    right, wanted, _ = _counted(gold, predicted)
    return right / wanted if wanted else 0.0


def bleu(gold: Labels, predicted: Labels, lang: str = "", tokens: str = "intl", lowercase: bool = False) -> float:
    """Corpus BLEU of texts, each a row of one; `lang` is that of the texts."""
    metric = _sacrebleu(lang, tokens, lowercase)
    return float(metric.corpus_score(list(chain.from_iterable(predicted)), [list(chain.from_iterable(gold))]).score)


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


METRICS: Mapping[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "micro_f1": accuracy,
    "macro_f1": macro_f1,
    "span_f1": span_f1,
    "span_precision": span_precision,
    "span_recall": span_recall,
    "chunk_f1": span_f1,
    "bleu": bleu,
    "bleu_13a": partial(bleu, tokens="13a"),
    "bleu_uncased": partial(bleu, lowercase=True),
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
    gold: Labels = [row.texts[1:] for row in data.rows] if task.kind == "translate" else [row.labels for row in data.rows]
    guessed = [[one] if isinstance(one, str) else list(one) for one in predictions]
    if len(guessed) != len(gold):
        raise DataError(f"{len(guessed)} predictions for {len(gold)} rows of {task.name} in {data.lang}.")
    for number, (g, p) in enumerate(zip(gold, guessed, strict=True)):
        if len(g) != len(p):
            raise DataError(f"row {number} of {task.name} in {data.lang}: {len(p)} predictions for {len(g)} labels.")
    numbers = {name: METRICS[name](gold, guessed, **({"lang": data.lang} if name.startswith("bleu") else {})) for name in task.metrics}
    return Measured(numbers, bleu_signature(data.lang) if "bleu" in numbers else "")
