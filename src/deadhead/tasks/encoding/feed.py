"""A dataset on the device, and batches picked from it by the numbers of their windows.

The ragged arrays are moved once; a batch is then a few index operations on the device, without the
host, so that it can be part of a CUDA graph. A negative number is filler: ~n is window n without
its labels. Filler pads a short batch to full shape and adds nothing to the loss.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deadhead.forward import IGNORED

from .encode import Encoded

# Batches are padded to these lengths where shapes must be few; beyond the last, to its multiples.
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class Shape(NamedTuple):
    """How many windows a part of a batch has, how long they are, and how long their labels."""

    rows: int
    width: int
    label_width: int


def rounded(width: int) -> int:
    """The next of the few widths."""
    return next((w for w in WIDTHS if w >= width), -(-width // WIDTHS[-1]) * WIDTHS[-1])


class Feed:
    """The windows of an encoded dataset on the device."""

    def __init__(self, encoded: Encoded, device: torch.device | str):
        self.device = torch.device(device)
        self.labels = encoded.data.task.traits.label_unit
        self.pad = encoded.pad
        arrays = encoded.arrays
        self.lengths = np.asarray(arrays["lengths"])
        self.label_lengths = np.asarray(arrays["label_lengths"])
        labelled = np.concatenate([[0], np.cumsum(np.asarray(arrays["labels"]) != IGNORED)])
        starts = encoded.label_starts
        self.counts = labelled[starts[1:]] - labelled[starts[:-1]]  # labels in the loss
        self._ids = self._move(arrays["ids"], np.int32)
        is_score = np.asarray(arrays["labels"]).dtype.kind == "f"
        self._targets = self._move(arrays["labels"], np.float32 if is_score else np.int32)
        self._types = self._move(arrays["types"], np.uint8) if "types" in arrays else None
        self._starts = self._move(encoded.starts[:-1], np.int64)
        self._sizes = self._move(self.lengths, np.int64)
        self._label_starts = self._move(starts[:-1], np.int64)
        self._label_sizes = self._move(self.label_lengths, np.int64)
        self._counts = self._move(self.counts, np.int64)

    def _move(self, values: Any, dtype: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype), device=self.device)

    def shape(self, numbers: np.ndarray, few: bool = False) -> Shape:
        """The shape of a batch of these windows; `few`: one of the few shapes."""
        width, of_labels = (int(a[numbers].max()) for a in (self.lengths, self.label_lengths))
        if few:
            width, of_labels = rounded(width), 2 if self.labels == "span" else rounded(of_labels)
        return Shape(len(numbers), width, of_labels)

    def labelled(self, numbers: Tensor) -> Tensor:
        """The number of labels of these windows in the loss; at least 1, as a divisor."""
        return (self._counts[_window(numbers)] * (numbers >= 0)).sum().clamp(min=1)

    def __call__(self, numbers: Tensor, shape: Shape) -> dict[str, Tensor]:
        """The batch of these windows, padded to the shape."""
        windows = _window(numbers)
        places, inside = _places(self._starts[windows], self._sizes[windows], shape.width)
        places = places.clamp(max=len(self._ids) - 1)
        ids = self._ids[places].long().masked_fill_(~inside, self.pad)
        batch = {"input_ids": ids, "attention_mask": inside.long()}
        if self._types is not None:
            batch["token_type_ids"] = self._types[places].long().masked_fill_(~inside, 0)
        if len(self._targets):  # single texts have no labels
            batch["labels"] = self._labels(windows, numbers >= 0, shape)
        return batch

    def _labels(self, windows: Tensor, real: Tensor, shape: Shape) -> Tensor:
        if self.labels == "pair":
            return self._targets[windows].masked_fill_(~real, IGNORED)
        if self.labels == "row":
            return self._targets[windows].long().masked_fill_(~real, IGNORED)
        width = shape.label_width if self.labels in ("text", "span") else shape.width
        starts, sizes = self._label_starts[windows], self._label_sizes[windows]
        places, inside = _places(starts, sizes, width)
        labels = self._targets[places.clamp(max=len(self._targets) - 1)].long()
        return labels.masked_fill_(~(inside & real[:, None]), IGNORED)


def _window(numbers: Tensor) -> Tensor:
    return torch.where(numbers < 0, ~numbers, numbers)


def _places(starts: Tensor, sizes: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The place of each position in the flat array, and whether it is within its window."""
    position = torch.arange(width, device=starts.device)
    return starts[:, None] + position, position < sizes[:, None]


def filled(numbers: np.ndarray, rows: int) -> np.ndarray:
    """The numbers of a batch, with filler up to this many rows."""
    short = rows - len(numbers)
    return np.concatenate([numbers, ~np.resize(numbers, short)]) if short > 0 else numbers
