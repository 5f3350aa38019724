"""The windows of a plain text: full ones, and a last one with what is left.

The first token of a window is not predicted: it is the special token that the tokenizer puts before
a text (Llama), or else the first of the text (GPT-2). A token stands for the characters from the
end of the token before it to its own end, so that blanks belong to the token behind them. A window
counts the UTF-8 bytes of its predicted tokens, and the words that begin in them.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from deadhead.forward import IGNORED
from deadhead.tasks.dataset import shuffled

from .tokenizer import Pieces, Window

WINDOW_ARRAYS = ("word_counts", "byte_counts")  # counted over the predicted tokens of each window
WORD_START = re.compile(r"(?<!\S)\S")


def text_windows(
    pieces: Pieces, texts: Sequence[str], before: tuple[int, ...], room: int
) -> tuple[list[Window], int]:
    """Return the windows of texts, and how many last tokens would be alone in theirs.

    before: the special tokens at the start of each window.
    room: the tokens of the text that fit behind them.
    """
    windows = []
    alone = 0
    for row, text in enumerate(texts):
        ids, ends = pieces.with_ends(text)
        counts = _decoded(pieces, ids) if ends is None else _covered(text, ends)
        for begin in range(0, len(ids), room):
            end = min(begin + room, len(ids))
            first = begin if before else begin + 1
            if first < end:
                window = [*before, *ids[begin:end]]
                labels = [IGNORED, *window[1:]]  # a model predicts no first token
                windows.append(Window(row, window, labels, predicted=counts(first, end)))
            else:
                alone += 1
    return windows, alone


Counts = Callable[[int, int], tuple[int, int]]  # first token, end -> words and bytes


def _covered(text: str, ends: list[int]) -> Counts:
    """Count in the part of the text that tokens cover."""
    # some tokenizers report a lower end for a piece of a character; none reports the blanks at last
    borders = np.maximum.accumulate([0, *ends[:-1], len(text)])
    starts = np.array([match.start() for match in WORD_START.finditer(text)], np.int64)

    def counts(first: int, stop: int) -> tuple[int, int]:
        begin, end = int(borders[first]), int(borders[stop])
        words = np.searchsorted(starts, end) - np.searchsorted(starts, begin)
        return int(words), len(text[begin:end].encode("utf-8", "surrogatepass"))

    return counts


def _decoded(pieces: Pieces, ids: list[int]) -> Counts:
    """Count in the text that tokens are turned back into."""

    def counts(first: int, stop: int) -> tuple[int, int]:
        text = str(pieces.tokenizer.decode(ids[first:stop]))
        return len(text.split()), len(text.encode("utf-8", "surrogatepass"))

    return counts


def draw_windows(windows: list[Window], draw: tuple[int, str] | None) -> list[Window]:
    """Return at most the number of windows to draw, at random and in the order of the text."""
    if draw is None or draw[0] >= len(windows):
        return windows
    most, seed = draw
    return [windows[i] for i in sorted(shuffled(len(windows), seed)[:most])]
