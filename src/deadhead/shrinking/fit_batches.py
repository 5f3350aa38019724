"""The calibration batches of a refit, and which of their examples are held out."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.forward import device_of, on_device, real_tokens
from deadhead.heads.rows import batch_first, is_of_decoder, real_rows
from deadhead.heads.site import Site
from deadhead.layout import Batch
from deadhead.rankers.batches import check_batches
from deadhead.rankers.loss import examples_of

from .held_out import held_out_numbers
from .streams import TASK_LAYER

Parts = tuple[Tensor, Tensor]  # numbers of the rows to fit, and of those that are held out
EXAMPLES, EXAMPLES_ON_GPU = 1000, 4000  # that are drawn from data by default


def examples_on(device: torch.device) -> int:
    """Return the number of examples to shrink with by default; a minute or two of work."""
    return EXAMPLES_ON_GPU if device.type == "cuda" else EXAMPLES


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
