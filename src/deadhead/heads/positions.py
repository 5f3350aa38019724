"""At which token positions a gate works: a mask or numbers, of all examples or of each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deadhead.errors import DataError, UnsupportedModel

from .call import Calls
from .rows import batch_first, inner_padding
from .site import Site

WRITE = (
    "write numbers, positions=[3, -1], a list of them for each example, or a mask of booleans, "
    "length or batch x length"
)


class Positions:
    """The positions of one block."""

    def __init__(self, block: str, positions: Any):
        self.block = block
        values = _numbers(positions)
        if not isinstance(values, list):
            raise DataError(f"`positions` expects a list, got {positions!r}.", WRITE)
        inner = {isinstance(value, list) for value in values}
        if len(inner) > 1:
            text = "`positions` expects numbers or a list for each example, got both."
            raise DataError(text, WRITE)
        self.each = inner == {True}  # whether every example has its own
        self.rows: list[list[Any]] = values if self.each else [values]
        every = [value for row in self.rows for value in row]
        if not every:
            raise DataError(
                "`positions` expects at least one position, got none.",
                "leave `positions` out to gate all of them",
            )
        if wrong := [value for value in every if not isinstance(value, int)]:
            text = f"`positions` expects whole numbers or booleans, got {wrong[0]!r}."
            raise DataError(text, WRITE)
        self.is_mask = isinstance(every[0], bool)
        if any(isinstance(value, bool) != self.is_mask for value in every):
            raise DataError("`positions` expects booleans or numbers, got both.", WRITE)

    def at(self, examples: int, length: int) -> Tensor:
        """The mask, (examples or 1) x length."""
        where = f"the {self.block}'s sequence of {length} tokens"
        if self.each and len(self.rows) != examples:
            raise DataError(
                f"`positions` expects those of {examples} examples, got {len(self.rows)}.",
                "give a list of positions for each example of the batch",
            )
        mask = torch.zeros(len(self.rows), length, dtype=torch.bool)
        for row, values in zip(mask, self.rows, strict=True):
            if self.is_mask:
                if len(values) != length:
                    raise DataError(
                        f"`positions` expects a mask for {where}, got {len(values)} values.",
                        "give the mask the length of the padded rows",
                    )
                row.copy_(torch.tensor(values))
                continue
            for number in values:
                if not -length <= number < length:
                    raise DataError(
                        f"`positions` expects positions in {where}, got {number}.",
                        f"use numbers from 0 to {length - 1}, or from -{length} to -1 from the end",
                    )
            if len({number % length for number in values}) < len(values):
                raise DataError(
                    f"`positions` expects each position once, got one of {values} twice.",
                    "a mask must be of booleans: write mask.bool()",
                )
            row[values] = True
        return mask


class Where:
    """Gives for what an output projection reads the mask of the chosen positions."""

    def __init__(self, site: Site, positions: Positions, calls: Calls):
        self.site, self.positions, self.calls = site, positions, calls

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


def _numbers(value: Any) -> Any:
    """Lists of plain numbers, from those of Python, numpy or torch; anything else as it is."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_numbers(item) for item in value]
    return value
