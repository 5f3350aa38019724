"""The part of the calibration data that is only measured on, and the loss of a model there."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deadhead.errors import DataError
from deadhead.layout import Batch
from deadhead.rankers.loss import IGNORED, LOSS, FiniteLoss, example_losses, examples_of

HELD_OUT = 0.125  # share of the examples


def check_number(examples: int) -> None:
    if examples < 3:
        raise DataError(
            "expected at least 3 examples, one to fit, one that judges the fit and one to measure "
            f"on, got {examples}.",
            "give more data; some hundreds of examples are a good start",
        )


def held_out_numbers(total: int) -> set[int]:
    """The numbers of the examples that are held out, spread evenly: at least one, and not all."""
    if total < 2:
        message = f"expected at least 2 examples, one of them to measure on, got {total}."
        raise DataError(message, "give more data; some hundreds of examples are a good start")
    count = max(1, round(HELD_OUT * total))
    return {(2 * number + 1) * total // (2 * count) for number in range(count)}


def split_examples(batches: Sequence[Batch]) -> tuple[list[Batch], list[Batch]]:
    """The batches without the held-out examples, and batches of these; at least one example.

    Which examples are held out depends on their order alone, not on the batches they are in.
    """
    held_out = held_out_numbers(sum(map(examples_of, batches)))
    parts: tuple[list[Batch], list[Batch]] = ([], [])
    begin = 0
    for batch in batches:
        size = examples_of(batch)
        measured = [number for number in range(size) if begin + number in held_out]
        fitted = [number for number in range(size) if begin + number not in held_out]
        for part, numbers in zip(parts, (fitted, measured), strict=True):
            if numbers:
                part.append(_rows(batch, numbers, size))
        begin += size
    return parts


def _rows(batch: Batch, numbers: Sequence[int], size: int) -> Batch:
    if len(numbers) == size:
        return batch
    return {
        name: value[torch.tensor(numbers, device=value.device)]
        if isinstance(value, Tensor) and value.dim() and len(value) == size
        else value
        for name, value in batch.items()
    }


@torch.no_grad()
def mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """The mean loss of the examples that have one. The model must be in evaluation mode."""
    finite, sums, count = FiniteLoss(), [], 0
    for batch in batches:
        losses = finite.add(example_losses(model, batch))
        sums.append(losses.sum())
        labels = batch.get("labels")
        if LOSS in batch or labels is None:
            count += len(losses)
        else:
            count += int((labels != IGNORED).view(len(labels), -1).any(1).sum())
    finite.check()
    if not count:
        raise DataError(
            "none of the held-out examples has a label, so that there is no loss to measure.",
            "give more examples with labels",
        )
    return sum(map(float, sums)) / count
