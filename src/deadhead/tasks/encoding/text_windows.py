"""The windows of a plain text: full ones, and a last one with what is left.

The first token of a window is not predicted: it is the special token that the tokenizer puts before
a text (Llama), or else the first of the text (GPT-2). A token stands for the characters from the
end of the token before it to its own end, so that blanks belong to the token behind them. A window
counts the UTF-8 bytes of its predicted tokens, and the words that begin in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deadhead.tasks.dataset import shuffled

from .tokenizer import Pieces

WINDOW_ARRAYS = ("word_counts", "byte_counts")  # counts of what each window predicts
WORD_START = re.compile(r"(?<!\S)\S")


@dataclass(frozen=True)
class TextWindow:
    """A stretch of a text in sub-words."""

    row: int
    ids: list[int]  # with the special tokens before the text
    word_counts: int
    byte_counts: int


def text_windows(
    pieces: Pieces, texts: Sequence[str], before: tuple[int, ...], room: int
) -> tuple[list[TextWindow], int]:
    """Return the windows of texts, and how many last tokens would be alone in theirs.

    before: the special tokens at the start of each window.
    room: the tokens of the text that fit behind them.
    """
    windows: list[TextWindow] = []
    alone = 0
    for row, text in enumerate(texts):
        ids, ends = pieces.with_ends(text)
        spans = [(i, min(i + room, len(ids))) for i in range(0, len(ids), room)]
        predicted = [(begin if before else begin + 1, end) for begin, end in spans]
        alone += sum(begin == end for begin, end in predicted)
        counts = (
            _decoded_counts(pieces, ids, predicted)
            if ends is None
            else _covered_counts(text, ends, predicted)
        )
        windows += [
            TextWindow(row, [*before, *ids[begin:end]], *count)
            for (begin, end), (first, _), count in zip(spans, predicted, counts, strict=True)
            if first < end
        ]
    return windows, alone


def _covered_counts(
    text: str, ends: list[int], spans: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the words and the bytes of each span of tokens."""
    # some tokenizers report a lower end for a piece of a character; none reports the blanks at last
    borders = np.maximum.accumulate([0, *ends[:-1], len(text)])
    starts = np.array([match.start() for match in WORD_START.finditer(text)], np.int64)
    for first, stop in spans:
        begin, end = int(borders[first]), int(borders[stop])
        words = np.searchsorted(starts, end) - np.searchsorted(starts, begin)
        yield int(words), len(text[begin:end].encode("utf-8", "surrogatepass"))


def _decoded_counts(
    pieces: Pieces, ids: list[int], spans: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the words and the bytes of each span of tokens, turned back into text."""
    for first, stop in spans:
        text = str(pieces.tokenizer.decode(ids[first:stop]))
        yield len(text.split()), len(text.encode("utf-8", "surrogatepass"))


def draw_windows(windows: list[TextWindow], draw: tuple[int, str] | None) -> list[TextWindow]:
    """Return at most the number of windows to draw, at random and in the order of the text."""
    if draw is None or draw[0] >= len(windows):
        return windows
    most, seed = draw
    return [windows[i] for i in sorted(shuffled(len(windows), seed)[:most])]
