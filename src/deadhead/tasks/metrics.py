"""METRICS: everything about each metric in one place. No torch, no seqeval.

A metric is computed in two parts: counts of each row, which add up over rows, and the value of
their sum. So rows can be resampled for a confidence interval (`bootstrap.py`). Its descriptor also
says how its numbers are printed (`scale`, `label`, `meaning`) and what it compares. A new metric is
one entry of METRICS; `evaluate`, tables and pages take the rest from it.

Spans are counted in `spans.py`. BLEU is that of sacrebleu, which is imported when a text is scored.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import eq
from typing import Any

import numpy as np

from deadhead.errors import optional

from .spans import Labels, span_counts

# How texts in these languages are cut into words, whichever tokens are requested.
LANGUAGE_TOKENS = {"zh": "zh", "ja": "char", "th": "char"}
ORDERS = 4  # the longest n-grams that BLEU counts
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
WordMeasure = Callable[[list[str], list[str]], float]  # of an answer and a right one
Score = Callable[[Sequence[int], Sequence[int]], float]  # (gains by rank, ideal order) -> number
Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is computed, how its numbers are printed, and which tasks can use it."""

    counts: Callable[[Labels, Labels, str], np.ndarray]
    """(gold, predicted, language) -> an array of rows x numbers that add up over rows"""
    value: Callable[[np.ndarray], np.ndarray]  # the metric of such sums, along the last axis
    label: str  # its name in tables, figures and sentences
    meaning: str = ""  # what it counts, where the label does not say it
    scale: float = 100.0  # points = scale x value: 100 for a share of 1, 1 for BLEU
    lower_is_better: bool = False
    # Or `spans` (tags with prefixes), `texts` (translations), `likelihoods` (counts of windows),
    # `options` (three chosen options of each row), `answers` (a text, and the right ones),
    # `numbers` (of pairs), `rankings` (of documents).
    compares: str = "labels"
    # (counts, how often each row is in each sample) -> sums, where they are more than sums of rows.
    sums: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda counts, times: times @ counts
    signature: Callable[[str], str] | None = None  # language -> details printed with the number

    def __call__(self, gold: Labels, predicted: Labels, lang: str = "") -> float:
        return self.of_all(self.counts(gold, predicted, lang))

    def of_all(self, counts: np.ndarray) -> float:
        """The metric of all rows, each counted once."""
        return float(self.value(self.sums(counts, np.ones((1, len(counts))))[0]))


def points(metric: str, value: float) -> float:
    """Return a value of a metric in points, as tables print it; unknown metrics are shares of 1."""
    return value * (METRICS[metric].scale if metric in METRICS else 100.0)


def points_text(metric: str, value: float, plus: str = "") -> str:
    """A value in points as text; plus: "+" for a difference.

    The perplexity of an untrained model may have dozens of digits.
    """
    number = points(metric, value)
    return f"{number:{plus}.2f}" if abs(number) < 1e6 else f"{number:{plus}.3g}"


def sign(metric: str) -> int:
    """Return 1 if higher values of a metric are better, -1 if lower ones are."""
    return -1 if metric in METRICS and METRICS[metric].lower_is_better else 1


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide, with 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) != 0)


def _right_labels(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Count for each row the labels that are right, and all labels."""
    counts = [(sum(map(eq, g, p)), len(g)) for g, p in zip(gold, predicted, strict=True)]
    return np.array(counts, float).reshape(-1, 2)


def _right_options(gold: Labels, predicted: Labels, lang: str, place: int) -> np.ndarray:
    """Count for each row whether the option is right, of the several that were chosen for it."""
    true, chosen = ([[labels[place]] for labels in side] for side in (gold, predicted))
    return _right_labels(true, chosen, lang)


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


def ngram_counts(
    gold: Labels, predicted: Labels, lang: str, tokens: str, lowercase: bool
) -> np.ndarray:
    """Count for each text: its length, that of the reference, right n-grams, all n-grams."""
    metric = _sacrebleu(lang, tokens, lowercase)
    references, texts = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    if texts:
        metric.corpus_score(texts, [references])  # warns of texts that look tokenised already
    scores = [metric.corpus_score([p], [[g]]) for g, p in zip(references, texts, strict=True)]
    counts = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]
    return np.array(counts, float).reshape(-1, 2 + 2 * ORDERS)


def bleu_of(sums: np.ndarray) -> np.ndarray:
    """Return the BLEU of summed counts, along the last axis."""
    from sacrebleu.metrics import BLEU

    def of_counts(row: np.ndarray) -> float:
        length, reference, *ngrams = (int(n) for n in row)
        right, total = ngrams[:ORDERS], ngrams[ORDERS:]
        bleu = BLEU.compute_bleu(right, total, length, reference, smooth_method="exp")
        return float(bleu.score)

    return np.apply_along_axis(of_counts, -1, sums)


def bleu_signature(lang: str = "", tokens: str = "intl", lowercase: bool = False) -> str:
    """Return sacrebleu's description of how BLEU was computed, to be printed with the number."""
    metric = _sacrebleu(lang, tokens, lowercase)
    metric.corpus_score(["a"], [["a"]])  # there is no signature before something is scored
    return str(metric.get_signature())


def _sacrebleu(lang: str, tokens: str, lowercase: bool) -> Any:
    sacrebleu = optional("sacrebleu", "translation", "BLEU")
    tokens = LANGUAGE_TOKENS.get(lang.rpartition("-")[2], tokens)
    return sacrebleu.BLEU(tokenize=tokens, lowercase=lowercase)


def answer_words(text: str) -> list[str]:
    """Return the words of an answer that SQuAD's metrics compare.

    They are in lower case, without ASCII punctuation, and without English articles. Nothing else is
    a separator than a blank: a Chinese answer is usually one word.
    """
    return ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split()


def _shared_words(answer: list[str], right: list[str]) -> float:
    """Return the F1 of the words; 0 where neither has any, as in the official script."""
    shared = (Counter(answer) & Counter(right)).total()
    return 2 * shared / (len(answer) + len(right)) if shared else 0.0


def _best_answers(gold: Labels, predicted: Labels, lang: str, measure: WordMeasure) -> np.ndarray:
    """Return for each question the highest value over its right answers, and 1 to count it."""
    counts = [
        (max(measure(answer_words(text), answer_words(right)) for right in answers), 1)
        for answers, (text, *_) in zip(gold, predicted, strict=True)
    ]
    return np.array(counts, float).reshape(-1, 2)


def _centred(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Return the gold and the predicted number of each pair, minus their means."""
    pairs = [(float(g[0]), float(p[0])) for g, p in zip(gold, predicted, strict=True)]
    numbers = np.array(pairs, float).reshape(-1, 2)
    return numbers - numbers.mean(0) if len(numbers) else numbers


def _moments(numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the sums of each sample that a correlation needs: of 1, x, y, xx, yy and xy."""
    x, y = numbers[..., 0], numbers[..., 1]
    terms = (np.ones_like(x), x, y, x * x, y * y, x * y)
    return np.stack([(times * term).sum(-1) for term in terms], -1)


def _rank_moments(numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the same of the ranks that the numbers have in each sample."""
    ranks = np.stack([_ranks(column, times) for column in numbers.T], -1)
    return _moments(ranks - times.sum(-1)[:, None, None] / 2, times)


def _ranks(numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the rank of each number in each sample; equal numbers share their mean rank."""
    values, groups = np.unique(numbers, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    begins = np.searchsorted(groups[order], np.arange(len(values)))
    sizes = np.add.reduceat(times[:, order], begins, axis=1)
    return np.asarray((sizes.cumsum(1) - (sizes - 1) / 2)[:, groups])


def _correlation(sums: np.ndarray) -> np.ndarray:
    """Return the correlation of such sums; 0 where one side is the same everywhere."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.clip(n * xx - x * x, 0, None) * np.clip(n * yy - y * y, 0, None)
    return _ratio(n * xy - x * y, np.sqrt(spread))


def grades_of(labels: Sequence[str]) -> dict[str, int]:
    """Return the grades of the documents that were judged for a query, by the labels of its row."""
    return {
        document: int(grade) for document, grade in zip(labels[1::2], labels[2::2], strict=True)
    }


def _of_queries(gold: Labels, predicted: Labels, lang: str, score: Score) -> np.ndarray:
    """Return the score of each query, and 1, so that their ratio is the mean."""
    values = []
    for labels, documents in zip(gold, predicted, strict=True):
        grades = grades_of(labels)
        gains = [max(0, grades.get(document, 0)) for document in documents]
        ideal = sorted((max(0, grade) for grade in grades.values()), reverse=True)
        values.append((score(gains, ideal), 1.0))
    return np.array(values, float).reshape(-1, 2)


def _ndcg(gains: Sequence[int], ideal: Sequence[int]) -> float:
    """As in trec_eval: a gain is the grade, and ideal the order of all judged documents."""
    best = _discounted(ideal[:10])
    return _discounted(gains[:10]) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _recall_of_relevant(gains: Sequence[int], ideal: Sequence[int]) -> float:
    relevant = sum(grade > 0 for grade in ideal)
    return sum(gain > 0 for gain in gains[:100]) / relevant if relevant else 0.0


def _reciprocal_rank(gains: Sequence[int], ideal: Sequence[int]) -> float:
    return next((1 / rank for rank, gain in enumerate(gains[:10], 1) if gain > 0), 0.0)


WINDOW_COUNTS = ("loss", "tokens", "right", "words", "bytes")  # sums over a window
Windows = Sequence[Sequence[float]]  # for each window its WINDOW_COUNTS


def _window_counts(gold: Any, predicted: Windows, lang: str) -> np.ndarray:
    """Return the counts of each window, which already add up; there is nothing to compare."""
    return np.asarray(predicted, float).reshape(-1, len(WINDOW_COUNTS))


def _window_metric(label: str, numerator: str, denominator: str, meaning: str = "") -> Metric:
    """Return a metric of a ratio of two counts; that of the loss is a perplexity."""
    parts = [WINDOW_COUNTS.index(name) for name in (numerator, denominator)]

    def value(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = sums[..., parts[0]] / sums[..., parts[1]]
            return np.asarray(np.exp(ratio) if is_loss else ratio)

    is_loss = numerator == "loss"
    return Metric(
        counts=_window_counts,  # type: ignore[arg-type]  # numbers, not labels
        value=value,
        label=label,
        scale=1.0 if is_loss else 100.0,
        lower_is_better=is_loss,
        compares="likelihoods",
        meaning=meaning,
    )


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


def _span(label: str, value: Callable[[np.ndarray], np.ndarray], meaning: str = "") -> Metric:
    return Metric(counts=span_counts, value=value, label=label, meaning=meaning, compares="spans")


def _correlation_metric(label: str, sums: Sums, meaning: str) -> Metric:
    return Metric(
        counts=_centred,
        sums=sums,
        value=_correlation,
        label=label,
        meaning=meaning,
        compares="numbers",
    )


def _of_rankings(label: str, score: Score, meaning: str = "") -> Metric:
    """Return the mean of a score of each query."""
    counts = partial(_of_queries, score=score)
    return Metric(counts=counts, value=_recall, label=label, meaning=meaning, compares="rankings")


def _choice(label: str, place: int, meaning: str) -> Metric:
    """Return the share of right options; `place`: of which of the three choices for each row."""
    counts = partial(_right_options, place=place)
    return Metric(counts=counts, value=_recall, label=label, meaning=meaning, compares="options")


def _answer(label: str, measure: WordMeasure, meaning: str) -> Metric:
    counts = partial(_best_answers, measure=measure)
    return Metric(counts=counts, value=_recall, label=label, meaning=meaning, compares="answers")


def _recall(sums: np.ndarray) -> np.ndarray:
    return _ratio(sums[..., 0], sums[..., 1])


def _f1(sums: np.ndarray) -> np.ndarray:
    return _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


_ACCURACY = Metric(counts=_right_labels, value=_recall, label="accuracy")

METRICS: dict[str, Metric] = {
    "accuracy": _ACCURACY,
    "micro_f1": replace(
        _ACCURACY, label="micro F1", meaning="over all words: the share of words labelled right"
    ),
    "macro_f1": Metric(
        counts=_counts_by_label,
        value=_mean_f1,
        label="macro F1",
        meaning="the mean over labels, rare ones counting as much as frequent ones",
    ),
    "span_f1": _span("span F1", _f1, "a span counts where its ends and its type are right"),
    "span_precision": _span("span precision", lambda sums: _ratio(sums[..., 0], sums[..., 2])),
    "span_recall": _span("span recall", _recall),
    "chunk_f1": replace(  # for any tags, with or without prefixes
        _span("chunk F1", _f1, "a chunk counts where its ends and its type are right"),
        compares="labels",
    ),
    "bleu": _bleu("BLEU"),
    "bleu_13a": _bleu("BLEU (13a)", tokens="13a"),
    "bleu_uncased": _bleu("BLEU (uncased)", lowercase=True),
    # the names and the definitions of lm-evaluation-harness
    "acc": _choice("choice accuracy", 0, "of the most likely options"),
    "acc_norm": _choice(
        "choice accuracy per character", 1, "of the options most likely for their length"
    ),
    "acc_bytes": _choice(
        "choice accuracy per byte", 2, "of the options most likely for their length in bytes"
    ),
    # those of SQuAD's script evaluate-v1.1.py
    "f1": _answer("answer F1", _shared_words, "over words, with the nearest of the right answers"),
    "exact_match": _answer("exact match", eq, "with any of the right answers"),
    "spearman": _correlation_metric(
        "Spearman", _rank_moments, "of the ranks of all pairs of the set together"
    ),
    "pearson": _correlation_metric("Pearson", _moments, "of all pairs of the set together"),
    # as in trec_eval and BEIR
    "ndcg_at_10": _of_rankings("nDCG@10", _ndcg, "the mean over queries"),
    "recall_at_100": _of_rankings("recall@100", _recall_of_relevant),
    "mrr_at_10": _of_rankings("MRR@10", _reciprocal_rank),
    "perplexity": _window_metric("perplexity", "loss", "tokens", "per token; lower is better"),
    "word_perplexity": _window_metric("perplexity per word", "loss", "words", "lower is better"),
    "byte_perplexity": _window_metric("perplexity per byte", "loss", "bytes", "lower is better"),
    "next_token_accuracy": _window_metric("next-token accuracy", "right", "tokens"),
}
