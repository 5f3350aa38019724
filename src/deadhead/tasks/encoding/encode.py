"""Rows to numbers, once: windows of sub-words with labels on them, memory-mapped from a cache.

A sentence of words that is too long becomes several windows, cut between words, so none is lost;
a text or a pair that is too long can only be shortened. Both are counted in `notes`. Labels sit on
the first piece of a word, or on all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deadhead.errors import DataError, unknown_name
from deadhead.tasks.dataset import Dataset
from deadhead.tasks.task import Row

from .array_cache import Arrays, cache_folder, stored
from .tokenizer import Frame, Pieces

FORM = 1  # raise when the arrays change their meaning, so that old caches are left alone
STRETCH = 4096  # rows cut at a time
IGNORED = -100  # the label that no loss sees
LONG = ("split", "cut")
ALIGN = ("first", "all")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A dataset in numbers. Window i is `ids[starts[i] : starts[i + 1]]` and belongs to row `rows[i]`."""

    data: Dataset = field(repr=False)
    labels: tuple[str, ...] = field(repr=False)
    arrays: Arrays = field(repr=False)
    pad: int
    notes: Mapping[str, int]
    fingerprint: str  # of the data, the tokenizer and the options together

    def __len__(self) -> int:
        return len(self.arrays["lengths"])

    @cached_property
    def starts(self) -> np.ndarray:
        return _starts(self.arrays["lengths"])

    @cached_property
    def label_starts(self) -> np.ndarray:
        return _starts(self.arrays["label_lengths"])


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def encode(
    data: Dataset,
    tokenizer: Any,
    *,
    max_length: int = 256,
    align: str = "first",
    long: str = "split",
    labels: Sequence[str] | None = None,
    cache: str | Path | None = None,
) -> Encoded:
    """The dataset as windows of at most `max_length` sub-words.

    tokenizer: one of transformers; or its `Pieces`, which remember the words they have cut, if there is much to encode.
    align: the label of a word on its `first` piece or on `all`.
    long: `split` long sentences into windows, or `cut` them and lose the words beyond (counted).
    labels: those of the model, if not the dataset's own; rows may hold others, which no loss sees (counted).
    cache: the folder for encoded data (or DEADHEAD_CACHE; else the user's cache folder).
    """
    if align not in ALIGN:
        raise unknown_name("alignment", align, ALIGN)
    if long not in LONG:
        raise unknown_name("way with long sentences", long, LONG)
    if not data.rows:
        raise DataError(f"{data!r} has nothing to encode.", "take a larger part of the data")
    names = tuple(data.labels if labels is None else labels)
    pieces = tokenizer if isinstance(tokenizer, Pieces) else Pieces(tokenizer)
    job = _Job(data, pieces, names, max_length, align, long)
    frames = [job.frame, pieces.target_frame() if data.task.kind == "translate" else None]
    key = [FORM, data.fingerprint, pieces.identity, repr(frames), names, max_length, align, long]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    arrays, notes = stored(
        (cache_folder() if cache is None else Path(cache)) / "encoded" / fingerprint, job.write
    )
    return Encoded(data, names, arrays, pieces.pad, notes, fingerprint)


@dataclass(frozen=True)
class _Job:
    """One encoding: what `stored` calls when the cache does not have it."""

    data: Dataset
    pieces: Pieces
    labels: tuple[str, ...]
    max_length: int
    align: str
    long: str

    @cached_property
    def frame(self) -> Frame:
        return self.pieces.frame(
            pair=self.data.task.kind == "classify"
            and any(len(row.texts) > 1 for row in self.data.rows)
        )

    def write(self, notes: dict[str, int]) -> Iterator[Arrays]:
        frame = self.frame
        room = self.max_length - frame.size
        if room < 2:
            raise DataError(
                f"max_length {self.max_length} leaves no room for words beside {frame.size} special tokens.",
                "raise max_length",
            )
        number = {label: i for i, label in enumerate(self.labels)}
        make = _MAKE[self.data.task.traits.label_unit]
        for start in range(0, len(self.data), STRETCH):
            windows = _Windows(notes, self.pieces.typed)
            make(self, self.data.rows[start : start + STRETCH], start, frame, room, number, windows)
            yield windows.arrays()


class _Windows:
    """The windows of one stretch, as lists until they become arrays."""

    def __init__(self, notes: dict[str, int], typed: bool):
        self.notes, self.typed = notes, typed
        self.ids: list[int] = []
        self.types: list[int] = []
        self.words: list[int] | None = None
        self.labels: list[int] = []
        self.lengths: list[int] = []
        self.label_lengths: list[int] = []
        self.rows: list[int] = []

    def count(self, name: str, n: int = 1) -> None:
        if n:
            self.notes[name] = self.notes.get(name, 0) + int(n)

    def add(self, row: int, ids: list[int], labels: list[int], types: list[int]) -> None:
        self.ids += ids
        self.labels += labels
        self.lengths.append(len(ids))
        self.label_lengths.append(len(labels))
        self.rows.append(row)
        if self.typed:
            self.types += types

    def arrays(self) -> Arrays:
        small = ("lengths", "label_lengths", "rows", "ids", "labels")
        found = {name: np.asarray(getattr(self, name), np.int32) for name in small}
        if self.typed:
            found["types"] = np.asarray(self.types, np.uint8)
        if self.words is not None:
            found["words"] = np.asarray(self.words, np.int32)
        return found


def _make_rows(
    job: _Job,
    rows: Sequence[Row],
    start: int,
    frame: Frame,
    room: int,
    number: Mapping[str, int],
    out: _Windows,
) -> None:
    """One text or two, one label."""
    sides = [
        job.pieces.texts([row.texts[side] for row in rows]) for side in range(len(rows[0].texts))
    ]
    for i, row in enumerate(rows):
        first, second = sides[0][i], sides[1][i] if len(sides) > 1 else []
        if len(first) + len(second) > room:
            out.count("texts cut")
            a, b = _shorter(len(first), len(second), room)
            first, second = first[:a], second[:b]
        label = number.get(row.labels[0], IGNORED)
        out.count("labels the model does not know", label == IGNORED)
        out.add(
            start + i,
            frame.put(first, second),
            [label],
            frame.segments(len(first), len(second)) if out.typed else [],
        )


def _shorter(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts fits: the longer one gives way first."""
    if first <= second:
        keep = min(first, room // 2) if first + first > room else first
        return keep, room - keep
    keep = min(second, room // 2) if second + second > room else second
    return room - keep, keep


def _make_words(
    job: _Job,
    rows: Sequence[Row],
    start: int,
    frame: Frame,
    room: int,
    number: Mapping[str, int],
    out: _Windows,
) -> None:
    """Words with a label each."""
    out.words = []
    unknown = job.pieces.tokenizer.unk_token_id
    nothing = [job.pieces.pad if unknown is None else int(unknown)]
    for i, (row, cut) in enumerate(
        zip(rows, job.pieces.words([row.texts for row in rows]), strict=True)
    ):
        windows = _fit([len(one) or 1 for one in cut], room)
        out.count("sentences split" if job.long == "split" else "sentences cut", len(windows) > 1)
        if job.long == "cut":
            out.count("words cut off", len(row.texts) - windows[0][1])
            windows = windows[:1]
        for begin, end in windows:
            ids, labels, words = (
                list(frame.before),
                [IGNORED] * len(frame.before),
                [-1] * len(frame.before),
            )
            for word in range(begin, end):
                found = cut[word] or nothing
                label = number.get(row.labels[word], IGNORED)
                out.count("words without pieces", not cut[word])
                out.count("words longer than a window", len(found) > room)
                out.count("labels the model does not know", label == IGNORED)
                rest = min(len(found), room) - 1
                ids += found[:room]
                labels += [label] + [label if job.align == "all" else IGNORED] * rest
                words += [word] + [-1] * rest
            out.words += words + [-1] * len(frame.after)
            out.add(
                start + i,
                [*ids, *frame.after],
                labels + [IGNORED] * len(frame.after),
                frame.segments(len(ids) - len(frame.before)),
            )


def _fit(sizes: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Ranges of words that fit into one window each, every one as full as can be."""
    ranges, begin, used = [], 0, 0
    for word, size in enumerate(sizes):
        size = min(size, room)
        if used + size > room:
            ranges.append((begin, word))
            begin, used = word, 0
        used += size
    return [*ranges, (begin, len(sizes))]


def _make_texts(
    job: _Job,
    rows: Sequence[Row],
    start: int,
    frame: Frame,
    room: int,
    number: Mapping[str, int],
    out: _Windows,
) -> None:
    """A source text, and a target text as labels."""
    target = job.pieces.target_frame()
    sources = job.pieces.texts([row.texts[0] for row in rows])
    targets = job.pieces.targets([row.texts[1] for row in rows])
    for i, (source, wanted) in enumerate(zip(sources, targets, strict=True)):
        space = job.max_length - target.size
        out.count("source texts cut", len(source) > room)
        out.count("target texts cut", len(wanted) > space)
        ids = frame.put(source[:room])
        out.add(start + i, ids, target.put(wanted[:space]), frame.segments(len(ids) - frame.size))


_MAKE: Mapping[str, Callable[..., None]] = {
    "row": _make_rows,
    "word": _make_words,
    "text": _make_texts,
}
