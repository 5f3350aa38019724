"""Windows to tensors: batches in a seeded order, sorted by length to pad little.

The order depends on the data and the seed alone, not on the machine. torch is loaded with the first
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.dataset import shuffled

from .encode import Encoded

if TYPE_CHECKING:
    import torch

    from .feed import Feed

POOL = 64  # batches whose windows are sorted among themselves when the order is shuffled


@dataclass(frozen=True, eq=False)
class Batches(Sequence["dict[str, torch.Tensor]"]):
    """A sequence of batches, each built when it is used."""

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
        return map(self._tensors, self.numbers)

    @cached_property
    def _feed(self) -> Feed:
        from .feed import Feed

        return Feed(self.encoded, "cpu" if self.device is None else self.device)

    def _tensors(self, numbers: np.ndarray) -> dict[str, torch.Tensor]:
        import torch

        windows = torch.from_numpy(numbers).to(self._feed.device)
        return self._feed(windows, self._feed.shape(numbers))

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
    every_option: bool = False,
    device: Any = None,
) -> Batches:
    """Return batches of `size` windows, or of what fits into `tokens` positions with padding.

    seed: shuffles; without one the order is that of the file.
    sort: puts windows of similar length together (within pools of batches, when shuffled).
    both: the length of a pair of texts is that of the longer one, not that of its source; for
        training, where both are read.
    every_option: of multiple choice all options, to compare them; otherwise the right ones.
    """
    if size < 1 or (tokens is not None and tokens < 1):
        message = f"`size` and `tokens` expect 1 or more, got {size} and {tokens}."
        raise DataError(message, "for instance size=32")
    lengths = np.asarray(encoded.arrays["lengths"])
    if both and encoded.data.task.traits.label_unit == "text":
        lengths = np.maximum(lengths, np.asarray(encoded.arrays["label_lengths"]))
    order = np.arange(len(encoded)) if every_option else encoded.learned
    pool = len(order)
    if seed is not None:
        order = order[shuffled(len(order), f"batches/{seed}")]
        per_batch = size if tokens is None else max(1, tokens // max(1, int(lengths.mean())))
        pool = POOL * per_batch
    if sort:
        pools = [p[np.argsort(lengths[p], kind="stable")] for p in _by_size(order, max(1, pool))]
        order = np.concatenate(pools or [order])
    groups = _by_size(order, size) if tokens is None else _by_tokens(order, lengths, tokens)
    if sort and seed is not None:  # else every pool would go from short to long
        groups = [groups[i] for i in shuffled(len(groups), f"order/{seed}")]
    return Batches(encoded, tuple(groups), device)


def _by_size(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[i : i + size] for i in range(0, len(order), size)]


def _by_tokens(order: np.ndarray, lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Group windows so that their padded rectangle fits; a larger window is a group of its own."""
    groups, begin, longest = [], 0, 0
    for i, number in enumerate(order):
        width = max(longest, int(lengths[number]))
        if i > begin and width * (i - begin + 1) > tokens:
            groups.append(order[begin:i])
            begin, width = i, int(lengths[number])
        longest = width
    return [*groups, order[begin:]] if len(order) else []
