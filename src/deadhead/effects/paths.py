"""Patch edges exactly: a target reads the stream with some of its sources corrupted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError
from deadhead.heads.hooks import hooked
from deadhead.layout import Batch
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.run import frozen, refuse_resampling

from .edges import recorded
from .graph import Edge, EdgeEffects, RowColumn, place_of
from .metrics import Metric, mean_of, measured
from .stream import Contribution, Nodes, Run, Target


def path_effects(
    model: nn.Module,
    clean: Batch | Iterable[Batch],
    corrupt: Batch | Iterable[Batch],
    metric: Metric,
    edges: Iterable[Edge | str | tuple[str, str]],
    *,
    progress: bool | Progress = True,
) -> EdgeEffects:
    """Measure how much the metric of the clean run changes if one edge is corrupted: path patching.

    The target of the edge reads the residual stream as it would be if its source had added what it
    adds in the corrupt run; everything else reads the stream as it is. Norms on the way are
    computed again. One run for each edge.

    Args:
        clean, corrupt, metric, progress: as for `edge_effects`.
        edges: those to patch, each alone: `Edge(source, target)`, or as printed,
            "encoder.0.3 -> encoder.2.1.q".

    >>> exact = path_effects(model, clean, corrupt, metric, edges.highest(20))
    """
    refuse_resampling(model)
    nodes, pairs = Nodes(model), check_pairs(clean, corrupt)
    if isinstance(edges, str | Edge) or not isinstance(edges, Iterable):
        edges = [edges]
    places = [place_of(edge, nodes.source_names, nodes.target_names) for edge in edges]
    if not places:
        raise DataError("there is no edge to patch.", "name at least one")
    matrix = np.full(nodes.no_edges().shape, np.nan)
    with edge_runs(nodes, pairs, metric) as circuits, reported(progress, "patch edges") as count:
        for number, place in enumerate(circuits.check(places)):
            patched = nodes.no_edges()
            patched[place] = True
            run = f"run with {nodes.edge(place)} patched"
            matrix[place] = mean_of([circuits(patched)], run)
            count(number + 1, len(places))
    start = mean_of([circuits.clean], "clean run")
    return EdgeEffects(
        sources=nodes.source_names,
        targets=nodes.target_names,
        matrix=matrix - start,
        clean=start,
        corrupt=mean_of([circuits.corrupt], "corrupt run"),
        steps=0,
        examples=len(circuits.clean),
    )


@contextmanager
def edge_runs(
    nodes: Nodes, pairs: Sequence[tuple[Batch, Batch]], metric: Metric
) -> Iterator[Circuits]:
    """Prepare the model for runs with edges corrupted."""
    with frozen(nodes.model, seed=0), hooked(nodes.model, nodes.sites), torch.no_grad():
        yield Circuits(nodes, pairs, metric)


class Circuits:
    """Runs the clean batches with any set of edges corrupted.

    clean, corrupt: the metric of each example. exists: targets x sources, where there is an edge.
    """

    def __init__(self, nodes: Nodes, pairs: Sequence[tuple[Batch, Batch]], metric: Metric):
        self.nodes, self.pairs, self.metric = nodes, pairs, PerExample(metric, "metric")
        runs = [recorded(nodes, batch, self.metric) for _, batch in pairs]
        self.others = [added for added, _ in runs]
        self.corrupt = torch.cat([values for _, values in runs])
        self.exists = nodes.no_edges()
        self.clean = self(self.exists)

    def __call__(self, patched: Tensor) -> Tensor:
        """The metric of each example with these edges corrupted: targets x sources."""
        values = []
        for (batch, _), other in zip(self.pairs, self.others, strict=True):
            run = _Patched(self.nodes, other, patched)
            with run.recording():
                values.append(measured(self.nodes.model, batch, self.metric))
            run.mark(self.exists)
        return torch.cat(values)

    def check(self, places: Iterable[RowColumn]) -> list[RowColumn]:
        """The places; raises an error for one where the model has no edge."""
        places = list(places)
        for place in places:
            if not self.exists[place]:
                raise DataError(
                    f"there is no edge {self.nodes.edge(place)}: the target comes before the "
                    "source.",
                    "edges lead upwards; edge_effects(...).frame() lists all of them",
                )
        return places


class _Patched(Run):
    """A run whose targets read the stream with some sources of another run.

    patched: targets x sources.
    """

    def __init__(self, nodes: Nodes, other: Sequence[Contribution], patched: Tensor):
        super().__init__(nodes, total=len(other))
        self.other, self.patched = other, patched
        self.changes: dict[int, Tensor] = {}

    def read(self, targets: list[Target], slot: int, tensor: Tensor) -> Tensor:
        same = super().read(targets, slot, tensor)
        changed = None if targets[0].rows is not None else self._patched_reads(targets[0], slot)
        return same if changed is None else changed[0]

    def projected(self, targets: list[Target], slot: int, output: Tensor) -> Tensor:
        for target in targets:
            changed = None if target.rows is None else self._patched_reads(target, slot)
            if changed is not None and target.rows is not None:
                shift = changed - self.tensors[slot]
                by_node = torch.einsum("n...d,nwd->...nw", shift, target.weight())
                rows = target.rows.flatten().to(output.device)
                output = output.index_add(-1, rows, by_node.flatten(-2))
        return output

    def _patched_reads(self, target: Target, slot: int) -> Tensor | None:
        """What each node of a target reads, if any of it is patched: nodes x the shape."""
        shifted: dict[int, Tensor] = {}
        for number in self.below(slot):
            each = self.added[number]
            mask = self.patched[target.nodes, each.source.nodes]
            if each.slot is not None and bool(mask.any()):
                if number not in self.changes:
                    self.changes[number] = each.change(self.other[number])
                change = self.changes[number]
                shift = torch.tensordot(mask.to(change), change, 1)
                shifted[each.slot] = self.tensors[each.slot] + shift
        if not shifted:
            return None
        read = self.function([*shifted], slot)
        changed: Tensor = torch.func.vmap(read)(*shifted.values())
        return changed
