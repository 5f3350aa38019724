"""BLEU as sacrebleu computes it: n-gram counts of each text, the score of their sums, a signature.

sacrebleu is imported when a text is scored: it is needed for translation only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from deadhead.errors import MissingExtra

# How texts in these languages are cut into words, whichever tokens are requested.
LANGUAGE_TOKENS = {"zh": "zh", "ja": "char", "th": "char"}
ORDERS = 4  # the longest n-grams that BLEU counts


def ngram_counts(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    lang: str,
    tokens: str = "intl",
    lowercase: bool = False,
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
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise MissingExtra("sacrebleu", "translation", "BLEU") from error
    tokens = LANGUAGE_TOKENS.get(lang.rpartition("-")[2], tokens)
    return BLEU(tokenize=tokens, lowercase=lowercase)
