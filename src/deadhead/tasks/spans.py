"""Spans of tags, by the rules of conlleval and seqeval.

A span begins at `B-`, at `S-`, and wherever the type changes; it is right only if its type and both
its ends are right. On tags without a prefix, seqeval reads the first letter as one: every SYM is
then a chunk of its own, CCONJ equals SCONJ, and an X at the start of a sentence begins too early.
`chunk_f1` keeps all of this, so that its numbers are those of the papers.
"""

from collections.abc import Sequence

import numpy as np

Labels = Sequence[Sequence[str]]  # for each row its labels: one for each word, or just one


def span_counts(gold: Labels, predicted: Labels, lang: str) -> np.ndarray:
    """Count for each row its spans: right, gold and predicted.

    Like seqeval, walk through all rows as one text with an `O` after each row; a span belongs to
    the row it ends in. No two spans end at the same word, so spans are matched by their ends.
    """
    types: dict[str, int] = {}
    texts = [[tag for tags in side for tag in (*tags, "O")] for side in (gold, predicted)]
    true, guess = (find_spans(text, types) for text in texts)
    both_true = true[np.isin(true[:, 0], guess[:, 0])]
    both_guess = guess[np.isin(guess[:, 0], true[:, 0])]
    right = both_true[(both_true == both_guess).all(1)]
    row_ends = np.cumsum([len(tags) + 1 for tags in gold])
    rows = [np.searchsorted(row_ends, side[:, 0], side="right") for side in (right, true, guess)]
    return np.stack([np.bincount(side, minlength=len(gold)) for side in rows], 1).astype(float)


def find_spans(tags: Sequence[str], types: dict[str, int]) -> np.ndarray:
    """Return the last word, the type and the first word of each span, one row a span.

    types: the number of each type, to which new types are added.
    """
    # Most tags occur often, so each is split into its prefix and its type once.
    numbers = {tag: i for i, tag in enumerate(dict.fromkeys(["O", *tags]))}
    prefixes = np.array([ord(tag[0]) for tag in numbers])
    names = [tag[1:].split("-", 1)[-1] or "_" for tag in numbers]
    kinds = np.array([types.setdefault(name, len(types)) for name in names])
    order = [0, *map(numbers.__getitem__, tags), 0]  # with an O before and an O after
    prefix, kind = prefixes[order], kinds[order]
    kind[0] = -1  # before the first word there is no type
    old, new, changed = prefix[:-1], prefix[1:], kind[:-1] != kind[1:]
    ends = _is(old, "ES") | (_is(old, "BI") & _is(new, "BSO")) | (~_is(old, "O.") & changed)
    begins = _is(new, "BS") | (_is(new, "EI") & _is(old, "ESO")) | (~_is(new, "O.") & changed)
    begins[0] = True  # a span that ends without a beginning counts from the first word
    end, begin = np.flatnonzero(ends), np.flatnonzero(begins)
    return np.stack([end - 1, kind[end], begin[np.searchsorted(begin, end) - 1]], 1)


def _is(prefixes: np.ndarray, letters: str) -> np.ndarray:
    return np.isin(prefixes, [ord(letter) for letter in letters])
