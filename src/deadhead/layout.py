"""The words everyone uses: a `Head`, the `Attention` it lives in, and the `HeadLayout` of a model.

Nothing here knows torch or a model: a layout is plain data, so that strategies, records and reports
can speak of heads without loading either. A head keeps the number it was born with: after
`encoder.3.7` is removed, its neighbour is still `encoder.3.8`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Any, NamedTuple

from deadhead.errors import HeadError


class Head(NamedTuple):
    """One attention head: the block it is in, its layer and its number there, all counted from 0."""

    block: str
    layer: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which no head has a use for

    def __str__(self) -> str:
        return f"{self.block}.{self.layer}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read a head back from its printed form, such as `encoder.3.7`."""
        parts = text.strip().split(".")
        if (
            len(parts) != 3
            or not parts[0]
            or not all(p.isdecimal() and len(p) < 10 for p in parts[1:])
        ):
            raise HeadError(
                f"{text!r} is not a head.",
                "write it as BLOCK.LAYER.INDEX, counted from 0, for instance encoder.3.7",
            )
        return cls(parts[0], int(parts[1]), int(parts[2]))


@dataclass(frozen=True)
class Attention:
    """One attention layer: which of its heads are left, and how they hang together."""

    block: str
    layer: int
    size: int  # heads it was born with
    kept: tuple[int, ...]  # the numbers of those that are left
    width: int  # of one head, at the input of the output projection
    group: int = 1  # heads in a row that read one key/value head; they can only go together
    shared_by: int = 1  # layers that use these very weights (ALBERT); a head goes from all of them
    path: str = ""  # of its module in the model

    @property
    def heads(self) -> tuple[Head, ...]:
        return tuple(Head(self.block, self.layer, i) for i in self.kept)

    @property
    def removed(self) -> tuple[Head, ...]:
        return tuple(
            Head(self.block, self.layer, i) for i in range(self.size) if i not in set(self.kept)
        )

    @property
    def groups(self) -> tuple[tuple[Head, ...], ...]:
        """The heads left, in the bundles that must be removed together (of one, without grouped queries)."""
        bundles: dict[int, list[Head]] = {}
        for head in self.heads:
            bundles.setdefault(head.index // self.group, []).append(head)
        return tuple(map(tuple, bundles.values()))


class HeadLayout:
    """The heads a model has: iterate for the heads, `len` to count them, `in` to ask for one."""

    def __init__(self, attentions: Iterable[Attention], skipped: Mapping[str, str] | None = None):
        self.attentions = tuple(attentions)
        self.skipped = dict(skipped or {})  # attention that cannot be gated: module path -> why
        self._heads = tuple(head for attention in self.attentions for head in attention.heads)
        self._at: dict[tuple[str, int], Attention] = {
            (a.block, a.layer): a for a in self.attentions
        }
        self._set = frozenset(self._heads)

    def __iter__(self) -> Iterator[Head]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)

    def __contains__(self, head: object) -> bool:
        return head in self._set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeadLayout) and self.attentions == other.attentions

    def __hash__(self) -> int:
        return hash(self.attentions)

    def __repr__(self) -> str:
        return f"HeadLayout({len(self)} heads: {', '.join(f'{b} {self.layers(b)} x {self.size(b)}' for b in self.blocks)})"

    def __getitem__(self, place: tuple[str, int]) -> Attention:
        return self._at[place]

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a.block for a in self.attentions))

    @property
    def removed(self) -> tuple[Head, ...]:
        return tuple(head for attention in self.attentions for head in attention.removed)

    def of(self, block: str) -> tuple[Attention, ...]:
        """The attention layers of a block, from the input upwards."""
        found = tuple(
            sorted((a for a in self.attentions if a.block == block), key=lambda a: a.layer)
        )
        if not found:
            raise HeadError(f"there is no block {block!r}.", f"use one of {', '.join(self.blocks)}")
        return found

    def layers(self, block: str) -> int:
        return len(self.of(block))

    def size(self, block: str) -> int:
        """Heads a layer of the block was born with (the largest, should layers differ)."""
        return max(a.size for a in self.of(block))

    def check(self, heads: Iterable[Head | str | tuple[str, int, int]]) -> tuple[Head, ...]:
        """The heads named, in layout order; an error for one that is not there or is named twice."""
        if isinstance(heads, str | Head):
            raise HeadError(f"{str(heads)!r} is one head, not several.", "put it in a list")
        if not isinstance(heads, Iterable):
            raise HeadError(
                f"{heads!r} is no list of heads.", 'write them as ["encoder.3.7", "encoder.4.0"]'
            )
        named = [self._named(head) for head in heads]
        if len(set(named)) < len(named):
            twice = next(h for h in named if named.count(h) > 1)
            raise HeadError(f"head {twice} is named twice.", "name each head once")
        for head in named:
            if head not in self._set:
                raise self._missing(head)
        wanted = set(named)
        return tuple(h for h in self._heads if h in wanted)

    @staticmethod
    def _named(head: Head | str | tuple[str, int, int]) -> Head:
        if isinstance(head, str):
            return Head.parse(head)
        try:
            block, layer, number = head
            return Head(
                str(block), index(layer), index(number)
            )  # whole numbers alone, also those of numpy and torch
        except (TypeError, ValueError):
            raise HeadError(
                f"{head!r} is not a head.",
                "give Head(block, layer, index) or its printed form, such as encoder.3.7",
            ) from None

    def _missing(self, head: Head) -> HeadError:
        layers = sorted(a.layer for a in self.attentions if a.block == head.block)
        if not layers:
            return HeadError(
                f"head {head}: there is no block {head.block!r}.",
                f"use one of {', '.join(self.blocks)}",
            )
        if head.layer not in layers:
            return HeadError(
                f"head {head}: {head.block} has no layer {head.layer}.",
                f"its layers are {spans(layers)}, counted from 0",
            )
        attention = self[head.block, head.layer]
        if not 0 <= head.index < attention.size:
            return HeadError(
                f"head {head}: layer {head.layer} of {head.block} was built with {attention.size} heads.",
                f"use an index from 0 to {attention.size - 1}",
            )
        return HeadError(
            f"head {head} is already gone.",
            f"left in {head.block} layer {head.layer}: {spans(attention.kept) or 'none'}",
        )

    def without(self, heads: Iterable[Head]) -> HeadLayout:
        """The layout that is left when these heads are removed."""
        gone = set(self.check(heads))
        left = (
            replace(a, kept=tuple(h.index for h in a.heads if h not in gone))
            for a in self.attentions
        )
        return HeadLayout(left, self.skipped)

    def to_dict(self) -> list[dict[str, Any]]:
        return [{**vars(a), "kept": list(a.kept)} for a in self.attentions]

    @classmethod
    def from_dict(cls, rows: Iterable[Mapping[str, Any]]) -> HeadLayout:
        return cls(Attention(**{**row, "kept": tuple(row["kept"])}) for row in rows)

    @classmethod
    def grid(cls, **blocks: tuple[int, int]) -> HeadLayout:
        """A layout out of nothing but sizes: `HeadLayout.grid(encoder=(12, 12))` is that of BERT-base."""
        return cls(
            Attention(block, layer, size, tuple(range(size)), width=64)
            for block, (layers, size) in blocks.items()
            for layer in range(layers)
        )


def spans(numbers: Iterable[int]) -> str:
    """Whole numbers as people write them: `0-3, 7, 9-11`."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
