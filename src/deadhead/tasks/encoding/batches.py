"""Windows to tensors: batches in a seeded order, by length so that little is padded, ready for `model(**batch)`.

The order depends on the data and the seed alone, not on the machine. torch is loaded when the first
batch is made. `collect` goes the other way: what the model said of each batch, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.dataset import shuffled

from .encode import IGNORED, Encoded

if TYPE_CHECKING:
    import torch

POOL = 64  # batches whose windows are sorted among themselves when the order is shuffled


@dataclass(frozen=True, eq=False)
class Batches(Sequence["dict[str, torch.Tensor]"]):
    """A sequence of batches, each made when it is asked for."""

    encoded: Encoded
    numbers: tuple[np.ndarray, ...] = field(repr=False)  # the windows of each batch
    device: Any = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return Batches(self.encoded, self.numbers[i], self.device)
        return self._tensors(self.numbers[i])

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return (self._tensors(numbers) for numbers in self.numbers)

    def _tensors(self, numbers: np.ndarray) -> dict[str, torch.Tensor]:
        import torch

        made = {
            name: torch.from_numpy(values) for name, values in arrays(self.encoded, numbers).items()
        }
        return (
            made
            if self.device is None
            else {name: tensor.to(self.device, non_blocking=True) for name, tensor in made.items()}
        )

    @cached_property
    def padding(self) -> float:
        """The share of input positions that is padding."""
        lengths = self.encoded.arrays["lengths"]
        full = sum(int(lengths[n].max()) * len(n) for n in self.numbers)
        return 1 - sum(int(lengths[n].sum()) for n in self.numbers) / full if full else 0.0


def batches(
    encoded: Encoded,
    *,
    size: int = 32,
    tokens: int | None = None,
    seed: int | str | None = None,
    sort: bool = True,
    both: bool = False,
    device: Any = None,
) -> Batches:
    """Batches of `size` windows, or of as many as fit into `tokens` positions, padding included.

    seed: shuffles; without one the order is that of the file.
    sort: puts windows of like length together (within pools of batches, when shuffled).
    both: the length of a pair of texts is that of the longer one, not of its source; for training, where both are read.
    """
    if size < 1 or (tokens is not None and tokens < 1):
        raise DataError("a batch holds at least one window.", "raise size or tokens")
    lengths = np.asarray(encoded.arrays["lengths"])
    if both and encoded.data.task.traits.label_unit == "text":
        lengths = np.maximum(lengths, np.asarray(encoded.arrays["label_lengths"]))
    order = (
        np.arange(len(encoded))
        if seed is None
        else np.asarray(shuffled(len(encoded), f"batches/{seed}"), np.int64)
    )
    if sort:
        pool = (
            len(order)
            if seed is None
            else POOL * (size if tokens is None else max(1, tokens // max(1, int(lengths.mean()))))
        )
        order = _sorted_in_pools(order, lengths, max(1, pool))
    groups = _by_size(order, size) if tokens is None else _by_tokens(order, lengths, tokens)
    if sort and seed is not None:  # else every pool would go from short to long
        groups = [groups[i] for i in shuffled(len(groups), f"order/{seed}")]
    return Batches(encoded, tuple(groups), device)


def _sorted_in_pools(order: np.ndarray, lengths: np.ndarray, pool: int) -> np.ndarray:
    pools = [order[i : i + pool] for i in range(0, len(order), pool)]
    return (
        np.concatenate([p[np.argsort(lengths[p], kind="stable")] for p in pools])
        if pools
        else order
    )


def _by_size(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[i : i + size] for i in range(0, len(order), size)]


def _by_tokens(order: np.ndarray, lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Groups of windows whose padded rectangle stays within the budget; one that is larger stands alone."""
    groups, begin, longest = [], 0, 0
    for i, number in enumerate(order):
        grown = max(longest, int(lengths[number]))
        if i > begin and grown * (i - begin + 1) > tokens:
            groups.append(order[begin:i])
            begin, grown = i, int(lengths[number])
        longest = grown
    return [*groups, order[begin:]] if len(order) else []


def arrays(encoded: Encoded, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """One batch as numpy arrays, padded on the right."""
    held = encoded.arrays
    width = int(held["lengths"][numbers].max())
    shape = (len(numbers), width)
    made = {
        "input_ids": np.full(shape, encoded.pad, np.int64),
        "attention_mask": np.zeros(shape, np.int64),
    }
    if "types" in held:
        made["token_type_ids"] = np.zeros(shape, np.int64)
    kind = encoded.data.task.traits.label_unit
    wide = {"row": 1, "word": width}.get(kind) or int(held["label_lengths"][numbers].max())
    labels = np.full((len(numbers), wide), IGNORED, np.int64)
    for row, n in enumerate(numbers):
        start, stop = encoded.starts[n], encoded.starts[n + 1]
        made["input_ids"][row, : stop - start] = held["ids"][start:stop]
        made["attention_mask"][row, : stop - start] = 1
        if "types" in held:
            made["token_type_ids"][row, : stop - start] = held["types"][start:stop]
        begin, end = encoded.label_starts[n], encoded.label_starts[n + 1]
        labels[row, : end - begin] = held["labels"][begin:end]
    made["labels"] = labels[:, 0] if kind == "row" else labels
    return made


def collect(made: Batches, outputs: Iterable[Any]) -> list[Any]:
    """Predictions in the order of the rows, ready for `score`.

    outputs: for each batch the predicted label numbers (of each position, or of each row), or the texts.
    """
    encoded = made.encoded
    kind = encoded.data.task.traits.label_unit
    outside = "O" if "O" in encoded.labels else (encoded.labels or ("",))[0]
    found: list[Any] = [
        [outside] * len(row.texts) if kind == "word" else None for row in encoded.data.rows
    ]
    for numbers, output in zip(made.numbers, outputs, strict=True):
        for n, one in zip(numbers, output, strict=True):
            row = int(encoded.arrays["rows"][n])
            if kind == "word":
                words = encoded.arrays["words"][encoded.starts[n] : encoded.starts[n + 1]]
                for position in np.flatnonzero(words >= 0):
                    found[row][words[position]] = encoded.labels[int(one[position])]
            else:
                found[row] = one if kind == "text" else encoded.labels[int(one)]
    return found
