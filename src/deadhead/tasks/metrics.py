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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from ..errors import DataError, MissingExtra
from .dataset import Dataset
from .table import Task, task_of

Labels = Sequence[Sequence[str]]  # for each row its labels: one for each word, or just one

# How texts in these languages are cut into words before n-grams are counted, whatever is asked for.
BLEU_TOKENS = {"zh": "zh", "ja": "char", "th": "char"}


def accuracy(gold: Labels, predicted: Labels) -> float:
    """The share of labels that are right; over words this is the micro F1 too."""
    pairs = [(g, p) for g, p in zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True)]
    return sum(g == p for g, p in pairs) / len(pairs) if pairs else 0.0


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """The mean F1 of the labels that occur, each counting the same."""
    right, wanted, given = Counter[str](), Counter[str](), Counter[str]()
    for g, p in zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True):
        wanted[g] += 1
        given[p] += 1
        right[g] += g == p
    scores = [2 * right[label] / (wanted[label] + given[label]) for label in wanted | given]
    return sum(scores) / len(scores) if scores else 0.0


def spans(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Type, first and last word of each span of a sentence."""
    start, prefix, kind = 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        new, new_kind = tag[0], tag[1:].split("-", 1)[-1] or "_"
        changed = kind != new_kind
        if prefix in "ES" or (prefix in "BI" and new in "BSO") or (prefix not in "O." and changed):
            yield kind, start, i - 1
        if new in "BS" or (new in "EI" and prefix in "ESO") or (new not in "O." and changed):
            start = i
        prefix, kind = new, new_kind


def _counted(gold: Labels, predicted: Labels) -> tuple[int, int, int]:
    """Spans that are right, wanted and given, over all sentences in a row with an `O` after each, as seqeval walks them."""
    true, found = ({*spans([tag for tags in side for tag in (*tags, "O")])} for side in (gold, predicted))
    return len(true & found), len(true), len(found)


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
