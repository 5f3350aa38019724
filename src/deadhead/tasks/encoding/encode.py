"""Rows to numbers, once: windows of sub-words with labels on them, kept in a cache.

A sentence of words that is too long becomes several windows, cut between words, so no word is lost;
a text or a pair that is too long can only be shortened. Both are counted in `notes`. Labels are on
the first piece of a word, or on all of them. The text of a language model is cut into windows that
are full except the last one (`text_windows.py`). Multiple choice has a window for each option
(`option_windows.py`), question answering has overlapping parts of the context
(`answer_windows.py`).
"""

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import DataError, unknown_name
from deadhead.forward import IGNORED
from deadhead.tasks.dataset import Dataset
from deadhead.tasks.task import SHORTEST_WINDOW, Row

from .answer_windows import answer_windows
from .option_windows import option_windows
from .text_windows import WINDOW_ARRAYS, draw_windows, text_windows
from .tokenizer import Frame, Pieces, Window

Arrays = Mapping[str, np.ndarray]
FORM = 1  # raise it when the arrays change their meaning, so that old caches are not read
STRETCH = 4096  # rows encoded at a time
LONG = ("split", "cut")
ALIGN = ("first", "all")


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """A dataset in numbers: window i is `ids[starts[i] : starts[i + 1]]`, of row `rows[i]`."""

    data: Dataset = field(repr=False)
    labels: tuple[str, ...] = field(repr=False)
    arrays: Arrays = field(repr=False)
    pad: int
    notes: Mapping[str, int]
    fingerprint: str  # the hash of the data, the tokenizer and the options together

    def __len__(self) -> int:
        return len(self.arrays["lengths"])

    @cached_property
    def starts(self) -> np.ndarray:
        return _starts(self.arrays["lengths"])

    @cached_property
    def label_starts(self) -> np.ndarray:
        return _starts(self.arrays["label_lengths"])

    @cached_property
    def learned(self) -> np.ndarray:
        """The windows to rank on and to train on: all, or of multiple choice the right options."""
        if self.data.task.traits.label_unit != "option":
            return np.arange(len(self))
        firsts = np.searchsorted(self.arrays["rows"], np.arange(len(self.data)))
        return firsts + np.array([int(row.labels[0]) for row in self.data.rows])


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def encode(
    data: Dataset,
    tokenizer: Any,
    *,
    max_length: int | None = None,
    align: str = "first",
    long: str = "split",
    labels: Sequence[str] | None = None,
    singles: Sequence[str] | None = None,
    cache: str | Path | None = None,
) -> Encoded:
    """Encode a dataset as windows of at most `max_length` sub-words.

    By default those of the kind of its task: 256, for lm 512, for choice 2048, for qa 384.


    tokenizer: one of transformers, or its `Pieces`.
    align: the label of a word on its `first` piece or on `all`.
    long: `split` long sentences into windows, or `cut` them and count the words that are lost.
    labels: those of the model, if not the dataset's own; no loss sees other labels of the rows,
        which are counted.
    singles: for a sentence encoder, which reads each of `data.single_texts` by itself: these texts
        as it gets them, with its prompt.
    cache: the folder for encoded data (or DEADHEAD_CACHE; else the user's cache folder).
    """
    if align not in ALIGN:
        raise unknown_name("alignment", align, ALIGN)
    if long not in LONG:
        raise unknown_name("way with long sentences", long, LONG)
    if not data.rows:
        raise DataError(f"{data!r} has nothing to encode.", "take a larger part of the data")
    max_length = max_length or data.task.traits.window
    names = tuple(data.labels if labels is None else labels)
    pieces = tokenizer if isinstance(tokenizer, Pieces) else Pieces(tokenizer)
    encoder = _Encoder(
        data=data,
        pieces=pieces,
        labels=names,
        max_length=max_length,
        align=align,
        long=long,
        singles=singles,
    )
    target = pieces.target_frame() if data.task.traits.label_unit == "text" else None
    frames = repr([encoder.frame, target])
    key = [FORM, data.fingerprint, pieces.identity, frames, names, max_length, align, long]
    key += [] if singles is None else [[*singles]]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    folder = files.cache_folder() if cache is None else Path(cache)
    arrays, notes = encoder.cached(folder / "encoded" / f"{fingerprint}.npz")
    return Encoded(
        data=data, labels=names, arrays=arrays, pad=pieces.pad, notes=notes, fingerprint=fingerprint
    )


@dataclass(frozen=True, kw_only=True)
class _Encoder:
    """Encodes one dataset if the cache does not have it."""

    data: Dataset
    pieces: Pieces
    labels: tuple[str, ...]
    max_length: int
    align: str
    long: str
    singles: Sequence[str] | None

    @cached_property
    def frame(self) -> Frame:
        pairs = self.singles is None and any(len(row.texts) > 1 for row in self.data.rows)
        reads_pairs = self.data.task.traits.label_unit in ("row", "span", "pair")
        return self.pieces.frame(pair=reads_pairs and pairs)

    @cached_property
    def room(self) -> int:
        """The pieces that fit into a window besides the special tokens."""
        if self.data.task.traits.label_unit == "token":  # the text continues behind a window
            return self.max_length - len(self.frame.before)
        return self.max_length - self.frame.size

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def cached(self, file: Path) -> tuple[Arrays, dict[str, int]]:
        """Return the arrays and notes of a file, which is written if it is missing or damaged."""
        try:
            with np.load(file) as stored:
                arrays = dict(stored)
                return arrays, json.loads(str(arrays.pop("notes")))
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            pass
        counts: Counter[str] = Counter()
        parts = list(self._stretches(counts))
        notes = dict(+counts)
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

        def fill(draft: Path) -> None:
            with draft.open("wb") as stream:
                np.savez(stream, notes=np.array(json.dumps(notes)), **arrays)

        file.parent.mkdir(parents=True, exist_ok=True)
        files.put(file, fill, durable=False)  # a power cut only costs writing it again
        return arrays, notes

    def _stretches(self, notes: Counter[str]) -> Iterator[Arrays]:
        if self.room < 2:
            special = self.max_length - self.room
            message = f"`max_length` expects {special + 2} or more, for two pieces and "
            message += f"{special} special tokens, got {self.max_length}."
            raise DataError(message, "raise max_length")
        unit = self.data.task.traits.label_unit
        if self.singles is not None:
            for start in range(0, len(self.singles), STRETCH):
                part = self.singles[start : start + STRETCH]
                yield self._arrays([*self._of_single(part, start, notes)])
            return
        windows_of = {
            "row": self._of_rows,
            "pair": self._of_rows,
            "word": self._of_words,
            "text": self._of_texts,
            "token": self._of_tokens,
            "option": self._of_options,
            "span": self._of_contexts,
        }[unit]
        stretch = len(self.data) if unit == "token" else STRETCH  # windows are drawn of all rows
        for start in range(0, len(self.data), stretch):
            yield self._arrays([*windows_of(self.data.rows[start : start + stretch], start, notes)])

    def _arrays(self, windows: Sequence[Window]) -> Arrays:
        """Return the windows of one stretch as arrays."""
        arrays = {
            "lengths": [len(window.ids) for window in windows],
            "label_lengths": [len(window.labels) for window in windows],
            "rows": [window.row for window in windows],
            "ids": [number for window in windows for number in window.ids],
            "labels": [label for window in windows for label in window.labels],
        }
        traits = self.data.task.traits
        if self.pieces.typed and not traits.needs_decoder:
            arrays["types"] = [kind for window in windows for kind in window.types]
        if traits.label_unit == "word":
            arrays["words"] = [word for window in windows for word in window.words]
        if traits.label_unit == "span":
            pairs = [pair for window in windows for pair in window.offsets]
            arrays["begins"], arrays["ends"] = (list(side) for side in zip(*pairs, strict=True))
        if traits.label_unit == "token":
            for place, name in enumerate(WINDOW_ARRAYS):
                arrays[name] = [window.predicted[place] for window in windows]
        encoded = {name: np.asarray(values, np.int32) for name, values in arrays.items()}
        if traits.label_unit == "pair":  # its labels are scores
            encoded["labels"] = np.asarray(arrays["labels"], np.float32)
        return encoded

    def _number(self, label: str, notes: Counter[str]) -> int:
        number = self.numbers.get(label, IGNORED)
        notes["labels the model does not know"] += number == IGNORED
        return number

    def _of_rows(self, rows: Sequence[Row], start: int, notes: Counter[str]) -> Iterator[Window]:
        """Yield windows of one text or two, with one label."""
        columns = range(len(rows[0].texts))
        sides = [self.pieces.texts([row.texts[i] for row in rows]) for i in columns]
        for i, row in enumerate(rows):
            first, second = sides[0][i], sides[1][i] if len(sides) > 1 else []
            if len(first) + len(second) > self.room:
                notes["texts cut"] += 1
                a, b = _shorter(len(first), len(second), self.room)
                first, second = first[:a], second[:b]
            types = self.frame.segments(len(first), len(second))
            is_score = self.data.task.traits.label_unit == "pair"
            label = row.labels[0]
            labels: list[Any] = [float(label) if is_score else self._number(label, notes)]
            yield Window(start + i, self.frame.put(first, second), labels, types)

    def _of_single(self, texts: Sequence[str], start: int, notes: Counter[str]) -> Iterator[Window]:
        """Yield a window for each text, which is cut where it is too long."""
        pieces = self.pieces.texts([text.strip() for text in texts])
        for number, own in enumerate(pieces, start):
            notes["texts cut"] += len(own) > self.room
            own = own[: self.room]
            yield Window(number, self.frame.put(own), [], self.frame.segments(len(own)))

    def _of_words(self, rows: Sequence[Row], start: int, notes: Counter[str]) -> Iterator[Window]:
        """Yield windows of words with a label each."""
        before, after = len(self.frame.before), len(self.frame.after)
        sentences = self.pieces.words([row.texts for row in rows])
        for i, (row, words) in enumerate(zip(rows, sentences, strict=True)):
            ranges = _fit([len(pieces) or 1 for pieces in words], self.room)
            split = self.long == "split"
            notes["sentences split" if split else "sentences cut"] += len(ranges) > 1
            if not split:
                notes["words cut off"] += len(row.texts) - ranges[0][1]
                ranges = ranges[:1]
            for begin, end in ranges:
                ids = []
                labels, numbers = [IGNORED] * before, [-1] * before
                for word in range(begin, end):
                    pieces = self._pieces(words[word], notes)
                    label = self._number(row.labels[word], notes)
                    rest = len(pieces) - 1
                    ids += pieces
                    labels += [label] + [label if self.align == "all" else IGNORED] * rest
                    numbers += [word] + [-1] * rest
                labels += [IGNORED] * after
                numbers += [-1] * after
                types = self.frame.segments(len(ids))
                yield Window(start + i, self.frame.put(ids), labels, types, numbers)

    def _pieces(self, pieces: list[int], notes: Counter[str]) -> list[int]:
        """Return the pieces of a word: at least one, and no more than a window holds."""
        notes["words without pieces"] += not pieces
        notes["words longer than a window"] += len(pieces) > self.room
        unknown = self.pieces.tokenizer.unk_token_id if not pieces else None
        return pieces[: self.room] or [self.pieces.pad if unknown is None else int(unknown)]

    def _of_texts(self, rows: Sequence[Row], start: int, notes: Counter[str]) -> Iterator[Window]:
        """Yield windows of a source text, with a target text as labels."""
        target = self.pieces.target_frame()
        target_room = self.max_length - target.size
        sources = self.pieces.texts([row.texts[0] for row in rows])
        targets = self.pieces.targets([row.texts[1] for row in rows])
        for i, (source, labels) in enumerate(zip(sources, targets, strict=True)):
            notes["source texts cut"] += len(source) > self.room
            notes["target texts cut"] += len(labels) > target_room
            ids = self.frame.put(source[: self.room])
            types = self.frame.segments(len(ids) - self.frame.size)
            yield Window(start + i, ids, target.put(labels[:target_room]), types)

    def _of_tokens(self, rows: Sequence[Row], start: int, notes: Counter[str]) -> list[Window]:
        """Return windows of texts; the label of a token is the token itself."""
        texts = [row.texts[0] for row in rows]
        windows, alone = text_windows(self.pieces, texts, self.frame.before, self.room)
        notes["last tokens left out, which are alone in a window"] += alone
        if not windows:
            message = f"{self.data!r}: there is nothing to predict in fewer than two tokens."
            raise DataError(message, "give a longer text")
        if (longest := max(len(window.ids) for window in windows)) < self.max_length:
            study = f"in a study --set fixed.data.max_length={longest}, in Python max_length"
            shorter = f", or shorter windows: --max-length {longest} ({study})"
            raise DataError(
                f"{self.data.task.name} {self.data.split}: expected a text of at least one window "
                f"of {self.max_length} tokens, got {longest} tokens.",
                "give a longer text" + (shorter if longest >= SHORTEST_WINDOW else ""),
            )
        drawn = draw_windows(windows, self.data.draw)
        notes["windows left out at random"] += len(windows) - len(drawn)
        return drawn

    def _of_options(self, rows: Sequence[Row], start: int, notes: Counter[str]) -> Iterator[Window]:
        """Return windows of a context with each of its options, whose tokens are its labels."""
        return option_windows(self.pieces, rows, start, self.max_length, notes)

    def _of_contexts(
        self, rows: Sequence[Row], start: int, notes: Counter[str]
    ) -> Iterator[Window]:
        """Return windows of a question with a part of its context."""
        return answer_windows(self.pieces, rows, start, self.frame, self.room, notes)


def _shorter(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how much of two texts fits: the longer one is cut first."""
    if first > second:
        return _shorter(second, first, room)[::-1]
    keep = min(first, room // 2) if first + first > room else first
    return keep, room - keep


def _fit(sizes: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Return ranges of words that fit into one window each, every window as full as possible."""
    ranges, begin, used = [], 0, 0
    for word, size in enumerate(sizes):
        size = min(size, room)
        if used + size > room:
            ranges.append((begin, word))
            begin, used = word, 0
        used += size
    return [*ranges, (begin, len(sizes))]
