"""At which token positions a gate works: numbers, or a mask of booleans."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deadhead.errors import DataError, UnsupportedModel

from .call import Calls
from .rows import batch_first, inner_padding
from .site import Site

WRITE = "write numbers, positions=[3, -1], or a mask of booleans, length or batch x length"


class Positions:
    """The positions of one block."""

    def __init__(self, block: str, positions: Any):
        self.block = block
        try:
            self.values = torch.as_tensor(positions).cpu()
        except (TypeError, ValueError, RuntimeError):
            raise DataError(f"`positions` expects a list, got {positions!r}.", WRITE) from None
        self.is_mask = self.values.dtype == torch.bool
        most = 2 if self.is_mask else 1
        if self.values.is_floating_point() or not 1 <= self.values.dim() <= most:
            text = f"`positions` expects whole numbers or booleans, got {positions!r}."
            raise DataError(text, WRITE)

    def at(self, examples: int, length: int) -> Tensor:
        """The mask, (examples or 1) x length."""
        if self.is_mask:
            mask = self.values.view(-1, self.values.shape[-1])
            if mask.shape[1] != length or len(mask) not in (1, examples):
                raise DataError(
                    f"`positions` expects a mask for {examples} x {length} tokens of the "
                    f"{self.block}, got {' x '.join(map(str, self.values.shape))}.",
                    "give the mask the length of the padded rows",
                )
            return mask
        for number in self.values.tolist():
            if not -length <= number < length:
                raise DataError(
                    f"`positions` expects positions in the {self.block}'s sequence of {length} "
                    f"tokens, got {number}.",
                    f"use numbers from 0 to {length - 1}, or from -{length} to -1 from the end",
                )
        numbers = self.values % length
        if len(numbers.unique()) < len(numbers):
            raise DataError(
                f"`positions` expects each position once, got {self.values.tolist()}.",
                "a mask must be of booleans: write mask.bool()",
            )
        return torch.zeros(1, length, dtype=torch.bool).index_fill(1, numbers, True)


@dataclass
class Where:
    """Gives for what an output projection reads the mask of the chosen positions."""

    site: Site
    positions: Positions
    calls: Calls

    def __call__(self, context: Tensor) -> Tensor:
        rows = batch_first(self.site, context)
        run = self.calls.now()
        key = ("positions", self.site.block, rows.shape[:2])
        if key not in run.kept:
            run.kept[key] = self._mask(rows)
        mask = run.kept[key].to(context.device)
        return batch_first(self.site, mask[..., None])

    def _mask(self, rows: Tensor) -> Tensor:
        self.calls.check_examples(self.site, rows)
        more = inner_padding(self.calls.model, self.calls.inputs(self.site), rows)
        length, tokens = rows.shape[1] - more, self.calls.tokens(self.site)
        if rows.dim() != 3 or length != (tokens or length):
            raise UnsupportedModel(
                f"{self.site.block} layer {self.site.layer} works on {tuple(rows.shape[:-1])} "
                "rows, which are not the tokens of the inputs.",
                "leave `positions` out",
            )
        return pad(self.positions.at(len(rows), length), (0, more)).to(rows.device)


def positions_of_blocks(positions: Any, blocks: Sequence[str], gated: Iterable[str]) -> Any:
    """The positions of each block: `gated` are the blocks with gates among all blocks."""
    if positions is None:
        return {}
    if isinstance(positions, Mapping):
        for block in positions:
            if block not in blocks:
                raise DataError(
                    f"`positions` expects a block of the model, got {block!r}.",
                    f"use one of {', '.join(blocks)}",
                )
        return {block: Positions(block, value) for block, value in positions.items()}
    names = sorted(set(gated))
    if len(names) > 1:
        raise DataError(
            f"`positions` expects those of each block with gates ({', '.join(names)}), "
            "got a single list.",
            f"write positions={{{names[0]!r}: [3, -1], ...}}",
        )
    return {block: Positions(block, positions) for block in names or blocks[:1]}
