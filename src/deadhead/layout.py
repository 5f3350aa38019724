"""A `Head`, the `Attention` layer it belongs to, and the `HeadLayout` of a model.

Nothing here needs torch or a model: a layout is plain data, so that strategies, records and
reports can name heads without either. A head keeps its number: after `encoder.3.7` is removed,
its neighbour is still `encoder.3.8`. So does a neuron of a `FeedForward` layer; neurons are too
many to be objects, so a mapping lists their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from operator import index
from typing import Any, Literal, NamedTuple, get_args

from deadhead.display.notebook import Square, tables
from deadhead.errors import HeadError

BLOCKS = ("encoder", "decoder", "cross", "vision", "audio", "text")  # in the order of layouts
Kind = Literal["heads", "neurons"]
SiteKey = tuple[Kind, str, int]  # "heads" or "neurons", block, layer
LayerKey = tuple[str, int]  # block, layer
Groups = Literal["whole", "expand"]  # how heads that share a key/value head are removed
GROUPS: tuple[str, ...] = get_args(Groups)
Neurons = Mapping[LayerKey, Iterable[int]]  # numbers counted from 0
NEURONS_HINT = 'write a dict, for instance {("encoder", 3): [17, 18]}'
MOST_NEURONS = 2**23  # removed neurons of a model: the largest of today has 6.7 million in all
PRINTED = re.compile(r"([^.]+)\.(\d{1,9})\.(\d{1,9})")  # a head
Batch = Mapping[str, Any]  # ready for `model(**batch)`: names -> tensors, in ranking also a loss


class Head(NamedTuple):
    """An attention head: its block, its layer there and its number there, counted from 0."""

    block: str
    layer: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which heads do not need

    def __str__(self) -> str:
        return f"{self.block}.{self.layer}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read a head from its printed form, such as `encoder.3.7`."""
        parts = PRINTED.fullmatch(text.strip())
        if parts is None:
            hint = "write BLOCK.LAYER.INDEX, counted from 0, for instance encoder.3.7"
            raise HeadError(f"expected a head, got {text!r}.", hint)
        return cls(parts[1], int(parts[2]), int(parts[3]))


class UnitLayer:
    """A layer whose units are heads or neurons, by the names that identify it."""

    kind: Kind
    block: str
    layer: int
    size: int  # units before any pruning
    kept: tuple[int, ...]  # the numbers of the units that are left

    @property
    def removed_numbers(self) -> tuple[int, ...]:
        return tuple(sorted({*range(self.size)}.difference(self.kept)))

    @property
    def key(self) -> SiteKey:
        return self.kind, self.block, self.layer

    @property
    def layer_key(self) -> LayerKey:
        return self.block, self.layer


@dataclass(frozen=True, kw_only=True)
class Attention(UnitLayer):
    """An attention layer, and which of its heads are left."""

    kind = "heads"
    block: str
    layer: int
    size: int  # heads before any pruning
    kept: tuple[int, ...]  # the numbers of the heads that are left
    width: int  # of a head, at the input of the output projection
    group: int = 1  # heads in a row that share a key/value head; they are removed together
    key_heads: tuple[int, ...] = ()  # which key/value head each head reads, if some were copied
    shared_by: int = 1  # layers that use these weights (ALBERT, Zamba); all lose a removed head
    path: str = ""  # to its module in the model

    @property
    def heads(self) -> tuple[Head, ...]:
        return tuple(Head(*self.layer_key, i) for i in self.kept)

    @property
    def removed(self) -> tuple[Head, ...]:
        return tuple(Head(*self.layer_key, i) for i in self.removed_numbers)

    @property
    def groups(self) -> tuple[tuple[Head, ...], ...]:
        """The heads that are left, in the groups that must be removed together."""
        groups = by_key_head(self.kept, self.group, self.key_heads)
        return tuple(tuple(Head(*self.layer_key, i) for i in group) for group in groups)


def by_key_head(
    heads: Iterable[int], group: int, key_heads: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """These heads of a layer by the key/value head that they read.

    group: heads in a row that share one. key_heads: or that of each head, where some were copied.
    """
    groups: dict[int, list[int]] = {}
    for head in heads:
        groups.setdefault(key_heads[head] if key_heads else head // group, []).append(head)
    return tuple(map(tuple, groups.values()))


@dataclass(frozen=True, kw_only=True)
class FeedForward(UnitLayer):
    """A feed-forward layer, and which of its neurons are left."""

    kind = "neurons"
    width = 1  # numbers of a neuron at the input of the second matrix; for heads there are more
    block: str
    layer: int
    size: int  # neurons before any pruning
    kept: tuple[int, ...]  # the numbers of the neurons that are left
    shared_by: int = 1  # layers that use these weights (ALBERT, Zamba); all lose a removed neuron
    path: str = ""  # to the module in the model that owns its matrices
    removed = UnitLayer.removed_numbers


class HeadLayout:
    """The heads of a model: iterate over them, count them with `len`, look one up with `in`."""

    def __init__(
        self,
        attentions: Iterable[Attention],
        skipped: Mapping[str, str] | None = None,  # layers that cannot be gated: path -> reason
        feed_forwards: Iterable[FeedForward] = (),
    ):
        self.attentions = tuple(attentions)
        self.skipped = dict(skipped or {})
        self.feed_forwards = tuple(feed_forwards)
        self._heads = tuple(head for a in self.attentions for head in a.heads)
        self._layers = {a.layer_key: a for a in self.attentions}
        self._set = frozenset(self._heads)
        self._content = self.attentions, self.feed_forwards

    def __iter__(self) -> Iterator[Head]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)

    def __contains__(self, head: object) -> bool:
        return head in self._set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeadLayout) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        blocks = ", ".join(f"{b} {self.layers(b)} x {self.size(b)}" for b in self.blocks)
        neurons = sum(len(f.kept) for f in self.feed_forwards)
        more = f"; {neurons:,} neurons" if self.feed_forwards else ""
        return f"HeadLayout({len(self)} heads: {blocks}{more})"

    def _repr_html_(self) -> str:
        """For a notebook: which heads are there, which were removed, and what was skipped."""
        blocks = {
            block: {a.layer: [_square(a, n) for n in range(a.size)] for a in self.of(block)}
            for block in self.blocks
        }
        title = f"{len(self)} of {len(self) + len(self.removed)} heads are there"
        notes = [
            f"{f.block} layer {f.layer}: {len(f.kept):,} of {f.size:,} neurons"
            for f in self.feed_forwards
        ]
        notes += [f"skipped {path}: {reason}" for path, reason in self.skipped.items()]
        return tables(title, blocks, notes)

    def __getitem__(self, block_and_layer: LayerKey) -> Attention:
        return self._layers[block_and_layer]

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a.block for a in self.attentions))

    @property
    def removed(self) -> tuple[Head, ...]:
        return tuple(head for attention in self.attentions for head in attention.removed)

    def of(self, block: str) -> tuple[Attention, ...]:
        """The attention layers of a block, from the input upwards."""
        layers = [a for a in self.attentions if a.block == block]
        if not layers:
            hint = f"the model has: {', '.join(self.blocks)}"
            raise HeadError(f"expected a block of the model, got {block!r}.", hint)
        return tuple(sorted(layers, key=lambda a: a.layer))

    def layers(self, block: str) -> int:
        return len(self.of(block))

    def size(self, block: str) -> int:
        """Heads of a layer of the block before any pruning (the most, if layers differ)."""
        return max(a.size for a in self.of(block))

    def check(self, heads: Iterable[Head | str | tuple[str, int, int]]) -> tuple[Head, ...]:
        """These heads in layout order; raises an error for a missing head or one named twice."""
        if isinstance(heads, str | Head) or not isinstance(heads, Iterable):
            got = str(heads) if isinstance(heads, Head) else heads
            hint = 'write a list, for instance ["encoder.3.7", "encoder.4.0"]'
            raise HeadError(f"expected a list of heads, got {got!r}.", hint)
        named = [_as_head(head) for head in heads]
        chosen = set(named)
        if len(chosen) < len(named):
            twice = next(head for head in named if named.count(head) > 1)
            raise HeadError(f"expected each head once, got {twice} twice.", "name each head once")
        for head in named:
            if head not in self._set:
                raise self._missing(head)
        return tuple(head for head in self._heads if head in chosen)

    def _missing(self, head: Head) -> HeadError:
        """The error for a head that the model does not have, or no longer has."""
        layers = sorted(a.layer for a in self.attentions if a.block == head.block)
        if not layers:
            expected, got = "a block of the model", repr(head.block)
            hint = f"the model has: {', '.join(self.blocks)}"
        elif head.layer not in layers:
            expected, got = f"a layer of {head.block}", str(head.layer)
            hint = f"its layers are {spans(layers)}, counted from 0"
        else:
            attention = self[head.block, head.layer]
            if 0 <= head.index < attention.size:
                expected, got = "a head that is left", "one that was removed before"
                left = spans(attention.kept) or "none"
                hint = f"left in {head.block} layer {head.layer}: {left}"
            else:
                expected, got = f"one of the {attention.size} heads of its layer", str(head.index)
                hint = f"use an index from 0 to {attention.size - 1}"
        return HeadError(f"head {head}: expected {expected}, got {got}.", hint)

    def check_neurons(self, neurons: Neurons | None) -> dict[LayerKey, tuple[int, ...]]:
        """These neurons, sorted; raises an error for a missing neuron or one named twice."""
        if neurons is not None and not isinstance(neurons, Mapping):
            raise HeadError(f"expected neurons by layer, got {neurons!r}.", NEURONS_HINT)
        layers = {f.layer_key: f for f in self.feed_forwards}
        checked = {}
        for place, numbers in (neurons or {}).items():
            if place not in layers:
                raise self._missing_feed_forward(place)
            checked[place] = _checked_numbers(layers[place], numbers)
        return checked

    def _missing_feed_forward(self, place: Any) -> HeadError:
        blocks: dict[str, list[int]] = {}
        for f in self.feed_forwards:
            blocks.setdefault(f.block, []).append(f.layer)
        known = "; ".join(f"{block} {spans(layers)}" for block, layers in blocks.items())
        return HeadError(
            f"expected a block and a layer with neurons, got {place!r}.",
            f"the model has these: {known or 'none'}; others are missing for the reason in "
            "discover(model, neurons=True).skipped",
        )

    def without(self, heads: Iterable[Head], neurons: Neurons | None = None) -> HeadLayout:
        """The layout that is left when these heads and neurons are removed."""
        removed = set(self.check(heads))
        left = (
            replace(a, kept=tuple(h.index for h in a.heads if h not in removed))
            for a in self.attentions
        )
        cut = {place: set(numbers) for place, numbers in self.check_neurons(neurons).items()}
        feed_forwards = (
            replace(f, kept=tuple(n for n in f.kept if n not in cut.get(f.layer_key, ())))
            for f in self.feed_forwards
        )
        return HeadLayout(left, self.skipped, feed_forwards)

    def in_single_heads(self) -> HeadLayout:
        """The layout as if no heads shared a key/value head, so that each is chosen alone."""
        single = (replace(a, group=1, key_heads=()) for a in self.attentions)
        return HeadLayout(single, self.skipped, self.feed_forwards)

    @property
    def kept(self) -> dict[SiteKey, tuple[int, ...]]:
        """What each layer has left: (kind, block, layer) -> numbers."""
        return {layer.key: layer.kept for layer in (*self.attentions, *self.feed_forwards)}

    def to_dict(self) -> list[dict[str, Any]]:
        rows = [{**vars(a), "kept": list(a.kept)} for a in self.attentions]
        for row in rows:
            copied = list(row.pop("key_heads"))
            row |= {"key_heads": copied} if copied else {}
        return rows

    @classmethod
    def from_dict(cls, rows: Iterable[Mapping[str, Any]]) -> HeadLayout:
        return cls(
            Attention(
                **{**row, "kept": tuple(row["kept"]), "key_heads": tuple(row.get("key_heads", ()))}
            )
            for row in rows
        )

    @classmethod
    def grid(cls, **blocks: tuple[int, int]) -> HeadLayout:
        """A layout from sizes alone: `HeadLayout.grid(encoder=(12, 12))` is that of BERT-base."""
        return cls(
            Attention(block=block, layer=layer, size=size, kept=tuple(range(size)), width=64)
            for block, (layers, size) in blocks.items()
            for layer in range(layers)
        )


def _square(attention: Attention, number: int) -> Square:
    """How a notebook shows a head."""
    head = Head(*attention.layer_key, number)
    if number not in attention.kept:
        return Square("×", f"{head}: removed")
    key = attention.key_heads[number] if attention.key_heads else number // attention.group
    group = f", key/value head {key}" if attention.group > 1 else ""
    return Square(str(number), f"{head}: width {attention.width}{group}", "#41568f", "#ffffff")


def _as_head(head: Head | str | tuple[str, int, int]) -> Head:
    if isinstance(head, str):
        return Head.parse(head)
    try:
        block, layer, number = head
        return Head(str(block), _whole(layer), _whole(number))
    except (TypeError, ValueError):
        hint = "give Head(block, layer, index) or its printed form, such as encoder.3.7"
        raise HeadError(f"expected a head, got {head!r}.", hint) from None


def _whole(number: Any) -> int:
    """A whole number of Python, numpy or torch; TypeError for others, and for parts of a mask."""
    if isinstance(number, bool) or str(getattr(number, "dtype", "")).endswith("bool"):
        raise TypeError
    return index(number)


def _checked_numbers(layer: FeedForward, numbers: Iterable[int]) -> tuple[int, ...]:
    """Numbers of neurons that a feed-forward layer has left, sorted, each once."""
    where = f"{layer.block} layer {layer.layer}"
    try:
        if isinstance(numbers, str):
            raise TypeError
        listed = sorted(map(_whole, numbers))
    except TypeError:
        message = f"{where}: expected a list of neurons, got {numbers!r}."
        raise HeadError(message, NEURONS_HINT) from None
    if listed and not 0 <= listed[0] <= listed[-1] < layer.size:
        outside = listed[0] if listed[0] < 0 else listed[-1]
        message = f"{where}: expected one of its {layer.size} neurons, got {outside}."
        raise HeadError(message, f"use numbers from 0 to {layer.size - 1}")
    if len(set(listed)) < len(listed):
        twice = next(a for a, b in pairwise(listed) if a == b)
        message = f"{where}: expected each neuron once, got {twice} twice."
        raise HeadError(message, "name each neuron once")
    if removed := sorted(set(listed).difference(layer.kept)):
        left = spans(layer.kept) or "none"
        left = left if len(left) < 100 else f"{len(layer.kept)} neurons"
        got = f"{spans(removed[:20])}, removed before"
        message = f"{where}: expected neurons that are left, got {got}."
        raise HeadError(message, f"left in this layer: {left}")
    return tuple(listed)


def numbers_of(text: str, most: int = MOST_NEURONS) -> tuple[int, ...]:
    """Read what `spans` writes; raises ValueError for any other text and for more numbers."""
    runs, end = [], -1
    for span in text.split(",") if text.strip() else ():
        first, _, last = span.strip().partition("-")
        start, stop = int(first), int(last or first)
        if not end < start <= stop:
            raise ValueError(f"{span!r} is no range of further numbers")
        end, most = stop, most - (stop + 1 - start)
        if most < 0:
            raise ValueError(f"too many numbers: {span!r} is beyond the last one expected")
        runs.append(range(start, stop + 1))
    return tuple(chain.from_iterable(runs))


def spans(numbers: Iterable[int]) -> str:
    """Whole numbers with ranges: `0-3, 7, 9-11`."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
