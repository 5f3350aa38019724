"""A dataset on the device, and batches picked out of it by the numbers of their windows.

The ragged arrays are moved once; a batch is then a handful of index operations where the model is,
with no host in between, so that it can be part of a CUDA graph. A negative number is filler: ~n
stands for window n without its labels, which makes a short batch up to full shape and no loss sees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deadhead.tasks.encoding.encode import IGNORED, Encoded

# Batches are padded to these lengths where shapes must be few; beyond the last, to multiples of it.
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
    """The windows of an encoded dataset, ready to be picked."""

    def __init__(self, encoded: Encoded, device: torch.device | str):
        self.device = torch.device(device)
        self.labels = encoded.data.task.traits.label_unit
        self.pad = encoded.pad
        held = encoded.arrays
        self.lengths, self.label_lengths = (
            np.asarray(held["lengths"]),
            np.asarray(held["label_lengths"]),
        )
        labelled = np.concatenate([[0], np.cumsum(np.asarray(held["labels"]) != IGNORED)])
        self.counts = (
            labelled[encoded.label_starts[1:]] - labelled[encoded.label_starts[:-1]]
        )  # labels that the loss sees
        self._ids, self._targets = (
            self._moved(held["ids"], np.int32),
            self._moved(held["labels"], np.int32),
        )
        self._types = self._moved(held["types"], np.uint8) if "types" in held else None
        self._starts, self._sizes = (
            self._moved(encoded.starts[:-1], np.int64),
            self._moved(self.lengths, np.int64),
        )
        self._label_starts = self._moved(encoded.label_starts[:-1], np.int64)
        self._label_sizes = self._moved(self.label_lengths, np.int64)
        self._counts = self._moved(self.counts, np.int64)

    def _moved(self, values: Any, dtype: Any) -> Tensor:
        return torch.from_numpy(np.array(values, dtype)).to(
            self.device
        )  # a copy: memory-mapped files cannot be written to

    def shape(self, numbers: np.ndarray, few: bool = False) -> Shape:
        """The shape of a batch of these windows; `few`: one of the few shapes."""
        width, wide = int(self.lengths[numbers].max()), int(self.label_lengths[numbers].max())
        return (
            Shape(len(numbers), rounded(width), rounded(wide))
            if few
            else Shape(len(numbers), width, wide)
        )

    def labelled(self, numbers: Tensor) -> Tensor:
        """How many labels of these windows the loss sees; 1 where there is none, since it is divided by."""
        return (self._counts[_real(numbers)] * (numbers >= 0)).sum().clamp(min=1)

    def __call__(self, numbers: Tensor, shape: Shape) -> dict[str, Tensor]:
        """The batch of these windows, padded to the shape."""
        real = _real(numbers)
        at, there = _places(self._starts[real], self._sizes[real], shape.width)
        at = at.clamp(max=len(self._ids) - 1)
        made = {
            "input_ids": self._ids[at].long().masked_fill_(~there, self.pad),
            "attention_mask": there.long(),
        }
        if self._types is not None:
            made["token_type_ids"] = self._types[at].long().masked_fill_(~there, 0)
        made["labels"] = self._labels(real, numbers >= 0, shape)
        return made

    def _labels(self, real: Tensor, meant: Tensor, shape: Shape) -> Tensor:
        if self.labels == "row":
            return self._targets[real].long().masked_fill_(~meant, IGNORED)
        width = shape.width if self.labels == "word" else shape.label_width
        at, there = _places(self._label_starts[real], self._label_sizes[real], width)
        found = self._targets[at.clamp(max=len(self._targets) - 1)].long()
        return found.masked_fill_(~(there & meant[:, None]), IGNORED)


def _real(numbers: Tensor) -> Tensor:
    return torch.where(numbers < 0, ~numbers, numbers)


def _places(starts: Tensor, sizes: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Where each position of each window lies in the flat array, and whether it is within the window."""
    position = torch.arange(width, device=starts.device)
    return starts[:, None] + position, position < sizes[:, None]


def filled(numbers: np.ndarray, rows: int) -> np.ndarray:
    """The numbers of a batch, made up to so many rows with filler."""
    short = rows - len(numbers)
    return np.concatenate([numbers, ~np.resize(numbers, short)]) if short > 0 else numbers
