"""Spans of tags, by the rules of conlleval and seqeval.

A span begins at `B-`, at `S-`, and wherever the type changes. It is right only if its type and both
its ends are right. On tags without a prefix, seqeval reads the first letter as one: every SYM is
then a chunk of its own, CCONJ equals SCONJ, and an X at the start of a sentence begins too early.
`chunk_f1` keeps all of this, so that its numbers are those of the papers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the type, the first and the last word of each span of a sentence."""
    types: dict[str, int] = {}
    last, number, first = (column.tolist() for column in find_spans(tags, types).T)
    names = list(types)
    return [(names[n], a, b) for n, a, b in zip(number, first, last, strict=True)]


def find_spans(tags: Sequence[str], types: dict[str, int]) -> np.ndarray:
    """Return the last word, the type and the first word of each span, one row a span.

    types: the number of each type, to which new types are added.
    """
    # Most tags occur often, so each is split into its prefix and its type once.
    numbers = {tag: i for i, tag in enumerate(dict.fromkeys(["O", *tags]))}
    prefixes = np.array([ord(tag[0]) for tag in numbers])
    kinds = np.array([types.setdefault(_type(tag), len(types)) for tag in numbers])
    order = [0, *map(numbers.__getitem__, tags), 0]  # with an O before and an O after
    prefix, kind = prefixes[order], kinds[order]
    kind[0] = -1  # before the first word there is no type
    old, new, changed = prefix[:-1], prefix[1:], kind[:-1] != kind[1:]
    ends = _is(old, "ES") | (_is(old, "BI") & _is(new, "BSO")) | (~_is(old, "O.") & changed)
    begins = _is(new, "BS") | (_is(new, "EI") & _is(old, "ESO")) | (~_is(new, "O.") & changed)
    begins[0] = True  # a span that ends without a beginning counts from the first word
    end, begin = np.flatnonzero(ends), np.flatnonzero(begins)
    return np.stack([end - 1, kind[end], begin[np.searchsorted(begin, end) - 1]], 1)


def _type(tag: str) -> str:
    return tag[1:].split("-", 1)[-1] or "_"


def _is(prefixes: np.ndarray, letters: str) -> np.ndarray:
    return np.isin(prefixes, [ord(letter) for letter in letters])
