"""The nodes of a model's residual stream: what adds to it, and what reads it.

A source adds: the input embeddings, each head, the neurons of each feed-forward layer. A target
reads: the queries, keys and values of each head, the neurons of each layer, and the output. Keys
and values that several heads share are one target. Whatever lies between, such as norms and
factors, belongs to the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import layout_of, search
from deadhead.heads.parts import Part, bare, is_linear, out_axis
from deadhead.heads.site import Site
from deadhead.layout import BLOCKS, spans

from .graph import Edge, RowColumn
from .tape import Tape

OUTPUT = "output"
PATCH_HEADS = "patch heads instead: patch_effects(model, clean, corrupt, metric)"


@dataclass(eq=False, kw_only=True)
class End:
    """An end of edges: a module that has one node, or a node for each head or group."""

    names: tuple[str, ...]
    order: tuple[Any, ...]
    module: Any = None
    first: int = 0  # the number of its first node among all sources or all targets

    @property
    def nodes(self) -> slice:
        return slice(self.first, self.first + len(self.names))


@dataclass(eq=False, kw_only=True)
class Source(End):
    """A module that adds to the stream: the output projection of heads; None: it is one node."""

    width: int = 0  # of a head

    def parts_of(self, value: Tensor) -> Tensor:
        """What each node adds to the stream: nodes x the shape of the output.

        value: of heads, what their module reads; of others, what they add. Or a difference of both
            in two runs.
        """
        if self.module is None:
            return value[None]
        weight = self.module.weight.unflatten(1 - out_axis(self.module), (-1, self.width))
        rule = "...hw,dhw->h...d" if out_axis(self.module) == 0 else "...hw,hwd->h...d"
        return torch.einsum(rule, value.unflatten(-1, (-1, self.width)), weight)


@dataclass(eq=False, kw_only=True)
class Target(End):
    """What a module reads of the stream."""

    rows: Tensor | None = None  # rows of the module's output, nodes x width; None: it is one node

    def weight(self) -> Tensor:
        """The rows of each node: nodes x width x what the module reads."""
        assert self.rows is not None
        weight: Tensor = self.module.weight
        by_row = weight if out_axis(self.module) == 0 else weight.T
        return by_row[self.rows.to(weight.device)]


class Nodes:
    """The sources and targets of a model, each with its number."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.sites, skipped = search(model, "heads")
        _refuse(model, skipped)
        self.layout = layout_of([site for site in self.sites if site.kind == "heads"])
        self.tables = _tables(model)
        blocks = [block for block in ("encoder", "decoder") if block in self.layout.blocks]
        self.inputs = [  # an encoder-decoder looks up its tokens twice
            Source(names=(f"{block}.input",), order=(-1, number))
            for number, block in enumerate(blocks or self.layout.blocks[:1])
        ]
        self.sources: dict[nn.Module, Source] = {}
        self.targets: dict[nn.Module, list[Target]] = {}
        self.output = Target(names=(OUTPUT,), order=(2,))
        for site in self.sites:
            for use in site.uses:
                self._add(use)
        self.every_source = [*self.inputs, *self.sources.values()]
        self.source_names = _numbered(self.every_source)
        self.targets = {module: group for module, group in self.targets.items() if group}
        targets = [target for group in self.targets.values() for target in group]
        self.target_names = _numbered([*targets, self.output])

    def edge(self, place: RowColumn) -> Edge:
        return Edge(self.source_names[place[1]], self.target_names[place[0]])

    def no_edges(self) -> Tensor:
        """A mask of edges, targets x sources, with none of them."""
        return torch.zeros(len(self.target_names), len(self.source_names), dtype=torch.bool)

    def _add(self, site: Site) -> None:
        """Add the nodes of a layer."""
        if site.out is None:
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} has no module for its output projection, so "
                "that the parts of its heads cannot be separated.",
                PATCH_HEADS,
            )
        if not site.kept:
            return
        above = int(site.block in ("decoder", "cross", "text"))
        order, heads = (above, site.layer, BLOCKS.index(site.block)), site.kind == "heads"
        units = site.kept if heads else ("neurons",)
        names = tuple(f"{site.block}.{site.layer}.{unit}" for unit in units)
        _check_plain(site, "o")
        self.sources[site.out] = Source(
            names=names,
            order=(*order, not heads),
            module=site.out if heads else None,
            width=site.width,
        )
        for role, part in site.parts.items():
            targets = self.targets.setdefault(part.module, [])
            if not heads and role != "o":
                targets.append(Target(names=names, order=(*order, 1), module=part.module))
            elif heads and role in ("q", "k", "v", "kv", "qkv"):
                _check_plain(site, role)
                targets += [_target(site, part, letter, order) for letter in role]


def _target(site: Site, part: Part, role: str, order: tuple[int, ...]) -> Target:
    groups = [(head,) for head in site.kept] if role == "q" else site.by_key(site.kept)
    spanned = (spans(group).replace(" ", "") for group in groups)
    return Target(
        names=tuple(f"{site.block}.{site.layer}.{group}.{role}" for group in spanned),
        order=(*order, 0, "qkv".index(role)),
        module=part.module,
        rows=torch.stack([site.rows_of(part, role, group[0]) for group in groups]),
    )


def _numbered(parts: Sequence[End]) -> tuple[str, ...]:
    """Number the nodes from the input upwards; the same names have the same numbers."""
    numbers: dict[str, int] = {}
    for part in sorted(parts, key=lambda part: part.order):
        part.first = numbers.setdefault(part.names[0], len(numbers))
        for name in part.names:
            numbers.setdefault(name, len(numbers))
    return tuple(numbers)


def _refuse(model: nn.Module, skipped: Any) -> None:
    """Raise an error where layers are no nodes, or where compiled code would run."""
    for path, why in skipped.items():
        raise UnsupportedModel(f"edges need every layer of the model; {path}: {why}.", PATCH_HEADS)
    compiled = (getattr(module, "_compiled_call_impl", None) for module in model.modules())
    if hasattr(model, "_orig_mod") or any(call is not None for call in compiled):
        raise UnsupportedModel(
            "a compiled model hides the operations between its layers.",
            "give the model itself, before torch.compile",
        )


def _check_plain(site: Site, role: str) -> None:
    module = site.parts[role].module
    weight: Any = getattr(module, "weight", None)
    is_bare = is_linear(module) and bare(module) is module
    if not is_bare or not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise UnsupportedModel(
            f"{site.block} layer {site.layer} has {type(module).__name__} as a projection, whose "
            "weights cannot be divided into heads.",
            "merge adapters first (merge_and_unload), and load weights that are not quantised",
        )


def _tables(model: Any) -> list[nn.Module]:
    """The modules that look up the embeddings of the inputs."""
    tables: dict[nn.Module, None] = {}
    for name in ("", "get_encoder", "get_decoder"):
        try:
            part = getattr(model, name)() if name else model
            table = part.get_input_embeddings()
        except (AttributeError, NotImplementedError):
            continue
        if isinstance(table, nn.Module):
            tables[table] = None
    return [*tables]


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What a source added in one of its calls."""

    source: Source
    value: Tensor  # what the module of heads read; what others added
    shape: torch.Size  # that of the added tensor
    slot: int | None

    def change(self, other: Contribution) -> Tensor:
        """What each node adds in another run, less what it adds in this one."""
        return self.source.parts_of(other.value - self.value)


class Run(Tape):
    """Records what the sources of a model add in a run, and follows the stream if `follows`.

    total: how many contributions a whole run has; behind the last one the output begins.
    """

    def __init__(self, nodes: Nodes, total: int | None = None):
        super().__init__()
        self.nodes, self.total = nodes, total
        self.added: list[Contribution] = []
        self.lookups = 0
        self.reads: list[tuple[list[Target], int]] = []
        self.slots_read: dict[nn.Module, int | None] = {}  # by the last call of each
        self.readers: set[nn.Module] = set()

    def input(self, number: int, embeddings: Tensor) -> Tensor:
        """The embeddings that the model gets instead of those of its table."""
        return embeddings

    def read(self, targets: list[Target], slot: int, tensor: Tensor) -> Tensor:
        """What a module gets instead of a tensor of the stream; no tensor that is followed."""
        self.reads.append((targets, slot))
        return tensor.view_as(tensor)

    def projected(self, targets: list[Target], slot: int, output: Tensor) -> Tensor:
        """What the model gets instead of what a module that read the stream gave."""
        return output

    def leave(self, slot: int, tensor: Tensor) -> Tensor:
        return self.read([self.nodes.output], slot, tensor)

    def mark(self, exists: Tensor) -> None:
        """Mark the edges of this run: which target reads what comes from which source."""
        for targets, slot in self.reads:
            for number in self.below(slot):
                for target in targets:
                    exists[target.nodes, self.added[number].source.nodes] = True

    def below(self, slot: int) -> list[int]:
        """The numbers of the contributions that a slot depends on."""
        return [n for n in range(len(self.added)) if self.origins[slot] >> n & 1]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Run the model in this block, with its metric."""
        with ExitStack() as stack:
            for table in self.nodes.tables:
                stack.enter_context(table.register_forward_hook(self._look_up))
            for module, source in self.nodes.sources.items():
                stack.enter_context(module.register_forward_hook(partial(self._add, source)))
            if self.total is None:
                yield
                return
            for module, targets in self.nodes.targets.items():
                before, after = partial(self._before, targets), partial(self._after, targets)
                stack.enter_context(module.register_forward_pre_hook(before))
                stack.enter_context(module.register_forward_hook(after))
            with self:
                yield
        for module, targets in self.nodes.targets.items():
            if module not in self.readers:
                raise UnsupportedModel(
                    f"{targets[0].names[0]} reads nothing that comes from the input embeddings "
                    f"of {type(self.nodes.model).__name__} by a way that can be followed.",
                    "give input_ids, without inputs_embeds or encoder_outputs; or " + PATCH_HEADS,
                )

    def _look_up(self, module: nn.Module, args: Any, output: Any) -> Any:
        if self.lookups == len(self.nodes.inputs) or not isinstance(output, Tensor):
            raise UnsupportedModel("the model looks up its inputs in an unknown way.", PATCH_HEADS)
        number, self.lookups = self.lookups, self.lookups + 1
        with self.paused():
            output = self.input(number, output)
        self._keep(self.nodes.inputs[number], output, output)
        return output

    def _add(self, source: Source, module: nn.Module, args: Any, output: Tensor) -> None:
        if self.slot_of(args[0]) is not None:
            raise UnsupportedModel(
                f"{source.names[0]} reads the residual stream past queries, keys and values.",
                PATCH_HEADS,
            )
        self._keep(source, args[0], output)

    def _keep(self, source: Source, context: Tensor, output: Tensor) -> None:
        slot = None if self.total is None else self.start(output)
        # a copy, since the model may change what is added in place
        value = output.clone() if source.module is None else context
        self.added.append(
            Contribution(source=source, value=value.detach(), shape=output.shape, slot=slot)
        )
        self.has_ended = len(self.added) == self.total

    def _before(self, targets: list[Target], module: nn.Module, args: Any) -> Any:
        slot = self.slots_read[module] = self.slot_of(args[0]) if args else None
        if slot is None:  # such as the embeddings of positions, which DeBERTa projects too
            return None
        self.readers.add(module)
        with self.paused():
            return (self.read(targets, slot, args[0]), *args[1:])

    def _after(self, targets: list[Target], module: nn.Module, args: Any, output: Any) -> Any:
        slot = self.slots_read[module]
        with self.paused():
            return None if slot is None else self.projected(targets, slot, output)
