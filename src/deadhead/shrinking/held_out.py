"""The calibration data: which examples are held out to be measured on alone, and batches to fit."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DataError
from deadhead.forward import device_of, on_device, real_tokens
from deadhead.heads.rows import batch_first, is_of_decoder, real_rows
from deadhead.heads.site import Site
from deadhead.layout import Batch
from deadhead.rankers.batches import check_batches
from deadhead.rankers.loss import IGNORED, LOSS, FiniteLoss, example_losses, examples_of

from .streams import TASK_LAYER

Parts = tuple[Tensor, Tensor]  # numbers of the rows to fit, and of those that are held out
EXAMPLES, EXAMPLES_ON_GPU = 1000, 4000  # that are drawn from data by default
HELD_OUT = 0.125  # share of the examples
GUARD = 0.5  # general texts for each example that is drawn
LEAST_MEASURED = 100  # general texts, where the guard has twice as many


def check_number(examples: int) -> None:
    if examples < 3:
        raise DataError(
            "expected at least 3 examples, one to fit, one that judges the fit and one to measure "
            f"on, got {examples}.",
            "give more data; some hundreds of examples are a good start",
        )


def held_out_numbers(total: int, share: float = HELD_OUT) -> set[int]:
    """The numbers of the examples that are held out, spread evenly: at least one, and not all."""
    if total < 2:
        message = f"expected at least 2 examples, one of them to measure on, got {total}."
        raise DataError(message, "give more data; some hundreds of examples are a good start")
    count = max(1, round(share * total))
    return {(2 * number + 1) * total // (2 * count) for number in range(count)}


def split_examples(
    batches: Sequence[Batch], share: float = HELD_OUT
) -> tuple[list[Batch], list[Batch]]:
    """The batches without the held-out examples, and batches of these; at least one example.

    Which examples are held out depends on their order alone, not on the batches they are in.
    """
    held_out = held_out_numbers(sum(map(examples_of, batches)), share)
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


def examples_on(device: torch.device) -> int:
    """Return the number of examples to shrink with by default; a minute or two of work."""
    return EXAMPLES_ON_GPU if device.type == "cuda" else EXAMPLES


def guard_size(most: int | None, examples: int) -> int:
    """Return the number of general texts to draw beside at most `most` of `examples`."""
    half = int(GUARD * (examples if most is None else most))
    return max(min(half, examples), 2 * LEAST_MEASURED)


def guard_measured(size: int) -> int:
    """Return how many texts of a guard are only measured: nothing is fitted to them."""
    return min(max(round(HELD_OUT * size), LEAST_MEASURED), size // 2)


class FitBatches:
    """Batches for a model, and which rows of its activations are held out."""

    def __init__(self, model: nn.Module, batches: Iterable[Batch], *, holds_out: bool = True):
        """holds_out: whether some examples judge the candidates; else all of them are fitted to."""
        self.model = model
        self.batches = check_batches(model, batches, labels=False)
        sizes = [examples_of(batch) for batch in self.batches]
        flags = torch.zeros(sum(sizes), dtype=torch.bool)
        if holds_out:
            flags[sorted(held_out_numbers(len(flags)))] = True
        self.held_out = flags.to(device_of(model)).split(sizes)
        self._parts: dict[Any, Parts] = {}  # by batch, and by what they depend on of a layer

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each batch on the device of the model, with its number."""
        for number, batch in enumerate(self.batches):
            yield number, on_device(batch, self.model)

    def parts(self, number: int, batch: Batch, site: Site, context: Tensor) -> Parts:
        """The numbers of the rows of what a projection reads that are fitted, and of the held-out.

        Padding is in neither. They are the same in every layer of a block, and a GPU would have to
        wait for them, so they are found once.
        """
        rows = batch_first(site, context)
        key = number, site.block, is_of_decoder(self.model, site), rows.shape[:-1]
        if key not in self._parts:
            fitted, held_out = self._find_parts(number, batch, site, rows)
            self._parts[key] = fitted.nonzero()[:, 0], held_out.nonzero()[:, 0]
        return self._parts[key]

    def _find_parts(
        self, number: int, batch: Batch, site: Site, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whether each row is fitted, and whether it is held out."""
        flags = self.held_out[number].to(rows.device)
        if site.block == TASK_LAYER and rows.shape[:-1] == flags.shape:
            return ~flags, flags  # a row for each example
        real = real_rows(self.model, batch, site, rows)
        held_out = flags[self._examples(len(flags), batch, site, rows)]
        held_out = held_out.view(-1, *[1] * (rows.dim() - 2)).expand(rows.shape[:-1])
        if real is None:
            real = torch.ones_like(held_out)
        return (real & ~held_out).flatten(), (real & held_out).flatten()

    def _examples(self, count: int, batch: Batch, site: Site, rows: Tensor) -> Tensor:
        """The example that each member of the first axis of rows belongs to."""
        mask = real_tokens(batch, decoder=is_of_decoder(self.model, site))
        if rows.dim() == 2 and mask is not None and len(rows) < mask.numel():
            return mask.to(rows.device).nonzero()[:, 0]  # the model has removed the padding
        return torch.arange(len(rows), device=rows.device) * count // len(rows)
