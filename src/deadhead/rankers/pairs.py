"""Do clean and corrupt batches fit each other? What is wrong is reported before anything runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deadhead.errors import DataError
from deadhead.layout import Batch

from .batches import check_inputs

MASKS = ("attention_mask", "decoder_attention_mask")


def check_pairs(
    clean: Batch | Iterable[Batch], corrupt: Batch | Iterable[Batch]
) -> list[tuple[Batch, Batch]]:
    """The batches in pairs: as many clean as corrupt ones, with the same shapes and padding.

    Where one of a pair has no labels, it gets those of the other.
    """
    sides = [listed("clean", clean), listed("corrupt", corrupt)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"got {len(sides[0])} clean batches and {len(sides[1])} corrupt ones.",
            "give one corrupt batch for each clean one",
        )
    pairs: list[tuple[Batch, Batch]] = []
    for number, (first, second) in enumerate(zip(*sides, strict=True)):
        if "labels" in first:
            second = {"labels": first["labels"], **second}
        elif "labels" in second:
            first = {"labels": second["labels"], **first}
        _check_pair(number, first, second)
        pairs.append((first, second))
    return pairs


def listed(side: str, batches: Batch | Iterable[Batch]) -> Sequence[Batch]:
    """The batches of a side as a list, which may be of one."""
    batch_list: list[Any] = []
    if isinstance(batches, Iterable):
        batch_list = [batches] if isinstance(batches, Mapping) else list(batches)
    if not batch_list or not all(isinstance(batch, Mapping) for batch in batch_list):
        raise DataError(
            f"`{side}` expects a batch or a list of batches, got {_kind(batches)}.",
            "give dicts ready for model(**batch)",
        )
    for number, batch in enumerate(batch_list):
        check_inputs(f"{side} batch {number}", batch)
    return batch_list


def _kind(value: Any) -> str:
    return "an empty list" if value in ([], ()) else type(value).__name__


def _check_pair(number: int, clean: Batch, corrupt: Batch) -> None:
    for name in dict.fromkeys((*clean, *corrupt)):
        first, second = clean.get(name), corrupt.get(name)
        if name in clean and name in corrupt and not isinstance(first, Tensor):
            continue
        if not isinstance(first, Tensor) or not isinstance(second, Tensor):
            side = "clean" if name not in clean else "corrupt"
            raise DataError(
                f"{side} batch {number} has no tensor {name!r}, and the other one has.",
                "give both the same entries",
            )
        if first.shape != second.shape:
            raise DataError(
                f"{name} of clean batch {number} has shape {tuple(first.shape)}, of corrupt "
                f"{tuple(second.shape)}.",
                "a head is patched position by position: give pairs of the same length",
            )
        if name in MASKS and not torch.equal(first.bool(), second.bool()):
            rows = (first.bool() != second.bool()).reshape(len(first), -1).any(1)
            raise DataError(
                f"{name} of example {int(rows.nonzero()[0])} of batch {number} differs between "
                "clean and corrupt.",
                "padding would be patched into tokens: give pairs of the same length",
            )
