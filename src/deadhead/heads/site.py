"""A layer of a model with its modules, its parts and its units: heads or neurons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TypeVar

import torch
from torch import nn

from deadhead.layout import Attention, FeedForward, Kind, UnitLayer, by_key_head

from .parts import Part

T = TypeVar("T", Attention, FeedForward, "Born")
MARK = "deadhead_born"  # the attribute of a projection that holds its `Born`


@dataclass(kw_only=True)
class Site(UnitLayer):
    """A layer whose output projection reads units side by side: its modules, its parts, its units.

    The units are the heads of an attention layer, or the neurons of a feed-forward layer, whose
    second matrix is its output projection. What is said of heads holds for neurons of width 1.
    """

    kind: Kind = "heads"
    core: nn.Module  # owns q, k and v, or both matrices of a feed-forward layer
    path: str
    out: nn.Module | None  # the output projection, whose input is gated; None for XLNet
    size: int  # heads before any cut
    keys: int  # key/value heads before any cut
    width: int  # of a head
    kept: tuple[int, ...]  # the heads that are left
    key_heads: tuple[int, ...] = ()  # which key/value head each head reads, if some were copied
    parts: dict[str, Part] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(default_factory=dict)  # of q and k, over all heads
    parent: nn.Module | None = None  # the module above the core
    time_first: bool = False  # the batch is the second axis
    halves: int = 1  # 2: the first matrix of a feed-forward layer holds its gates too
    shared_by: int = 1
    tied: tuple[Site, ...] = ()  # other layers of the block with the same parameters (Zamba)
    block: str = ""
    layer: int = 0

    @property
    def uses(self) -> tuple[Site, ...]:
        """The layer, and those with the same parameters, which are gated and cut with it."""
        return (self, *self.tied)

    @property
    def outs(self) -> tuple[nn.Module, ...]:
        """The output projection of each use; none for XLNet."""
        return tuple(use.out for use in self.uses if use.out is not None)

    @property
    def group(self) -> int:
        """Heads that shared a key/value head before any cut; 1 if all share one, or none do."""
        return self.size // self.keys if self.keys > 1 else 1

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The units that are left, in the groups that are removed together."""
        return by_key_head(self.kept, self.group, self.key_heads)

    def keys_of(self, heads: tuple[int, ...]) -> tuple[int, ...]:
        """The key/value heads that these heads read, by their numbers before any cut.

        A key/value head that was copied is there once for each copy.
        """
        if self.keys == self.size:
            return heads
        return tuple(group[0] * self.keys // self.size for group in self.by_key(heads))

    def by_key(self, heads: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """These heads by the key/value head that they read."""
        return by_key_head(heads, self.size // self.keys, self.key_heads)

    def rows_of(self, part: Part, role: str, head: int) -> torch.Tensor:
        """Where the rows that a head uses are in a part, as it is now."""
        unit = head if role not in "kv" else head * self.keys // self.size
        present = part.present(self.kept, self.keys_of(self.kept))
        places = (present == part.rows[role][unit][:, None]).nonzero()[:, 1]
        copies = places.view(len(part.rows[role][unit]), -1)
        if copies.shape[1] == 1:
            return copies[:, 0]
        readers = [g for g in self.by_key(self.kept) if g[0] * self.keys // self.size == unit]
        return copies[:, next(n for n, heads in enumerate(readers) if head in heads)]

    def first(self, units: int) -> tuple[int, ...]:
        """The heads or neurons of the first units."""
        return tuple(number for group in self.groups[:units] for number in group)

    def described(self, kind: type[T]) -> T:
        """Those of its fields that a class for plain data has."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(kind)})


def merge_tied(sites: Iterable[Site]) -> list[Site]:
    """One layer for all layers of a block whose weights are the same parameters.

    Layers with other code stay apart: a cut could change one of them in another way.
    """
    layers: dict[tuple[object, ...], list[Site]] = {}
    for site in sites:
        owners = [(part.module, name) for part in site.parts.values() for name, _ in part.tensors]
        tensors = [(module, getattr(module, name)) for module, name in owners]
        tensors.append((site.core, getattr(site.out, "bias", None)))
        # what is no parameter is computed again at each call, so that its id means nothing
        ids = (id(t if t is None or isinstance(t, nn.Parameter) else m) for m, t in tensors)
        layers.setdefault((site.block, type(site.core), *ids), []).append(site)
    for uses in layers.values():
        uses[0].tied = tuple(uses[1:])
        uses[0].shared_by = max(uses[0].shared_by, len(uses))
    return [first for first, *_ in layers.values()]


@dataclass(frozen=True, kw_only=True)
class Born:
    """What pruning leaves on the query projection, so that heads keep their numbers.

    The first matrix of a feed-forward layer has it for the neurons.

    It is on the projection, not on the layer, because BigBird moves its projections to another
    layer object when it changes from sparse to full attention. An adapter around the projection
    has it inside.
    """

    size: int
    keys: int
    width: int
    kept: tuple[int, ...]
    halves: int = 1
    key_heads: tuple[int, ...] = ()
