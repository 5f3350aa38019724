"""Edge attribution patching: the effect of every edge of a model, to first order, at once.

An edge leads from what a source adds to the residual stream to a target that reads it. The change
of the source is carried up the stream through the derivatives of whatever lies between, and meets
the gradient at the target. Where a norm follows each addition, as in BERT, its derivative at the
clean run is part of the way, so an edge is the derivative of what `path_effects` patches exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import device_of, precise
from deadhead.heads.hooks import hooked
from deadhead.layout import Batch
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen, refuse_resampling
from deadhead.registry.options import Count, accepts, expected

from .graph import EdgeEffects
from .metrics import Metric, mean_of, measured
from .stream import PATCH_HEADS, Contribution, Nodes, Run, Target
from .tape import Step


def edge_effects(
    model: nn.Module,
    clean: Batch | Iterable[Batch],
    corrupt: Batch | Iterable[Batch],
    metric: Metric,
    *,
    steps: int = 1,
    progress: bool | Progress = True,
) -> EdgeEffects:
    """Estimate for every edge how much the metric of the clean run changes if it is corrupted.

    An edge leads from a source (the input embeddings, a head, the neurons of a layer) to a target
    (the queries, keys or values of a head, neurons, the output). Patched is what the target reads:
    there the source has the value of the corrupt run. Heads that share keys and values share their
    target. The estimate is of first order, in one clean and one corrupt run and one backward pass
    (EAP, Syed et al. 2023); `path_effects` measures single edges exactly.

    Where layers share their weights (ALBERT), an edge stands for all uses of its heads, each of
    which the estimate counts alone.

    Args:
        clean: a batch ready for `model(**batch)`, or a list of batches.
        corrupt: likewise, with the same shapes and padding.
        metric: a function of the outputs and the batch that gives one number per example, such as
            `logit_difference(answer, wrong)`, or a loss.
        steps: mean of the gradients at this many points between the corrupt and the clean input
            embeddings, of which the last one is clean (EAP-IG, Hanna et al. 2024).
        progress: as for `patch_effects`.

    >>> edges = edge_effects(model, clean, corrupt, logit_difference(mary, john))
    >>> edges.frame().head()
    """
    if not accepts(Count, steps):
        raise DataError(f"`steps` expects {expected(Count)}, got {steps!r}.", "write steps=5")
    refuse_resampling(model)
    nodes, pairs = Nodes(model), check_pairs(clean, corrupt)
    per_example, means = PerExample(metric, "metric"), []
    exists = nodes.no_edges()
    precision = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    scores = torch.zeros(exists.shape, device=device_of(model), dtype=precision)
    with frozen(model, seed=0), hooked(model, nodes.sites), reported(progress, "edges") as count:
        for number, (first, second) in enumerate(pairs):
            other, corrupt_metric = recorded(nodes, second, per_example)
            for step in range(steps):  # from the clean run on
                run = _Gradients(nodes, other, (steps - step) / steps)
                values = run(first, per_example)
                if not step:
                    means.append((values, corrupt_metric))
                    added = run.added
                    run.mark(exists)
                run.add_scores(changes_of(added, other), scores)
                del run  # its memory, before the next one
                count(number * steps + step + 1, len(pairs) * steps)
    examples = sum(examples_of(batch) for batch, _ in pairs)
    scores = (scores / steps / examples).double().cpu()
    if not bool(scores.isfinite().all()):
        raise DataError(
            "the gradient of the metric is not a finite number.",
            "check the metric, and the model's weights for nan",
        )
    clean_side, corrupt_side = zip(*means, strict=True)
    return EdgeEffects(
        sources=nodes.source_names,
        targets=nodes.target_names,
        matrix=scores.masked_fill(~exists, float("nan")).numpy(),
        clean=mean_of(clean_side, "clean run"),
        corrupt=mean_of(corrupt_side, "corrupt run"),
        steps=steps,
        examples=examples,
    )


@torch.no_grad()
def recorded(nodes: Nodes, batch: Batch, metric: PerExample) -> tuple[list[Contribution], Tensor]:
    """What the sources add in a run, and its metric."""
    run = Run(nodes)
    with run.recording():
        values = measured(nodes.model, batch, metric)
    if {id(each.source) for each in run.added} != {id(source) for source in nodes.every_source}:
        raise UnsupportedModel(
            "the model looks up no embeddings of its inputs, or does not run all of its layers.",
            "give input_ids, without inputs_embeds or encoder_outputs; or " + PATCH_HEADS,
        )
    return run.added, values


def changes_of(first: Sequence[Contribution], second: Sequence[Contribution]) -> list[Tensor]:
    """What each node adds in the second run, less what it adds in the first one.

    All of one shape are side by side in memory, so that sums of the stream need no copies.
    """
    if [each.source for each in first] != [each.source for each in second]:
        raise UnsupportedModel(
            "the clean and the corrupt run use the layers in another order.", PATCH_HEADS
        )
    shapes = [each.shape for each in first for _ in each.source.names]
    free = {s: first[0].value.new_empty(shapes.count(s), *s) for s in dict.fromkeys(shapes)}
    changes = []
    for one, two in zip(first, second, strict=True):
        size, unused = len(one.source.names), free[one.shape]
        changes.append(unused[:size].copy_(one.change(two)))
        free[one.shape] = unused[size:]
    return changes


class Carried(NamedTuple):
    """What nodes change at a slot."""

    nodes: list[int]  # their numbers in the run
    changes: Tensor  # nodes x the shape of the slot's tensor


class _Gradients(Run):
    """A run that keeps the gradient of the metric at every target.

    share: of the clean input embeddings; the rest is corrupt.
    """

    def __init__(self, nodes: Nodes, other: Sequence[Contribution], share: float):
        super().__init__(nodes, total=len(other))
        self.share = share
        self.corrupt_inputs = [o.value for o in other if o.source in nodes.inputs]
        self.leaves: list[Tensor] = []
        self.gradients: dict[int, Tensor] = {}  # the number of a read -> at what it gave

    def input(self, number: int, embeddings: Tensor) -> Tensor:
        mixed = self.corrupt_inputs[number].lerp(embeddings, self.share)
        self.leaves.append(mixed.detach().requires_grad_())
        return self.leaves[-1].clone()  # the model may change it in place

    def read(self, targets: list[Target], slot: int, tensor: Tensor) -> Tensor:
        alias = super().read(targets, slot, tensor)
        return alias if targets[0].rows is not None else self._awaited(alias)

    def projected(self, targets: list[Target], slot: int, output: Tensor) -> Tensor:
        return output if targets[0].rows is None else self._awaited(output)

    def _awaited(self, tensor: Tensor) -> Tensor:
        """The tensor, whose gradient will be that of the last read."""
        number, gradients = len(self.reads) - 1, self.gradients
        if tensor.requires_grad:
            # A hook, since the model may later change the tensor in place. It does not know the
            # run, which it would keep in memory behind its end.
            tensor.register_hook(lambda gradient: gradients.setdefault(number, gradient))
        return tensor

    def __call__(self, batch: Batch, metric: PerExample) -> Tensor:
        """Run forward and backward; gives the metric."""
        with self.recording():
            values = measured(self.nodes.model, batch, metric)
            total = values.sum()
        if total.requires_grad:
            torch.autograd.grad(total, self.leaves, allow_unused=True)
        if not self.gradients:
            raise UnsupportedModel(
                "no part of the model gets a gradient of the metric.",
                "compute the metric from the outputs, undetached",
            )
        self.tensors = [tensor.detach() for tensor in self.tensors]
        return values.detach()

    @torch.no_grad()
    def add_scores(self, changes: Sequence[Tensor], scores: Tensor) -> None:
        """Add the change of each source times the gradient at each target, targets x sources.

        The changes are used up: what is not needed any more is overwritten.
        """
        reads: dict[int, list[int]] = {}
        for number in self.gradients:
            reads.setdefault(self.reads[number][1], []).append(number)
        anchors = self._anchors()
        starts = pairwise(accumulate((len(change) for change in changes), initial=0))
        carried: dict[int, Carried] = {}
        started = {
            each.slot: Carried([*range(*nodes)], change)
            for each, nodes, change in zip(self.added, starts, changes, strict=True)
        }
        columns = _nodes([each.source.nodes for each in self.added], scores.device)
        support = {slot: self._support([slot], anchors) for slot in reads}
        below = {
            slot: self._support(step.inputs, anchors)
            for slot in anchors
            if (step := self.steps[slot]) is not None
        }
        uses = sorted([*support.items(), *below.items()])
        last = {number: slot for slot, used in uses for number in used}
        for slot in range(len(self.tensors)):
            if slot in last and slot in started:
                carried[slot] = started[slot]
            elif slot in last and slot in below:
                later = [c.changes for n, c in carried.items() if last[n] > slot]
                carried[slot] = self._carried(slot, below[slot], carried, later)
            if slot in reads:
                rows, pulled = self._pulled(slot, reads[slot], support[slot])
                for anchor, gradients in zip(support[slot], pulled, strict=True):
                    nodes, sources = carried[anchor]
                    products = precise(gradients).flatten(1) @ precise(sources).flatten(1).T
                    edges = rows[:, None], columns[nodes]
                    scores.index_put_(edges, products.to(scores), accumulate=True)
            carried = {n: part for n, part in carried.items() if last[n] > slot}

    def _anchors(self) -> set[int]:
        """The slots to which changes are carried: sources, sums, and what is added."""
        anchors = {each.slot for each in self.added if each.slot is not None}
        for number, step in enumerate(self.steps):
            if step is not None and step.is_addition:
                anchors |= {number, *step.inputs}
        return anchors

    def _support(self, slots: Sequence[int], anchors: set[int]) -> list[int]:
        """The nearest anchors that slots are computed from; themselves, if they are anchors."""
        nearest, open_, visited = set(), [*slots], {*slots}
        while open_:
            number = open_.pop()
            step = self.steps[number]
            if number in anchors or step is None:
                nearest.add(number)
            else:
                new = set(step.inputs) - visited
                visited |= new
                open_ += new
        return sorted(nearest)

    def _carried(
        self, slot: int, below: list[int], carried: Mapping[int, Carried], later: Sequence[Tensor]
    ) -> Carried:
        """The changes at a slot, from those at the anchors below; `later`: those needed again."""
        step, parts, values = self.steps[slot], [carried[n] for n in below], self._values(below)
        assert step is not None
        first, shape = parts[0], self.tensors[slot].shape
        nodes = sorted({node for part in parts for node in part.nodes})
        one_shape = all(value.shape == shape for value in values)
        if step.is_addition and one_shape and len(nodes) == sum(len(part.nodes) for part in parts):
            parts.sort(key=lambda part: part.nodes)
            return Carried([n for part in parts for n in part.nodes], _joined(parts))
        single = one_shape and len(below) == 1  # what fits into the memory of its changes
        free = single and not any(_overlap(first.changes, other) for other in later)
        is_norm = step.function is F.layer_norm and len(step.args[1]) == 1
        if single and is_norm and step.inputs == (below[0],):
            changes = first.changes if free else first.changes.clone()
            return Carried(first.nodes, _normed(step, values[0], changes))

        def change(*directions: Tensor) -> Tensor:
            moved_by: Tensor = torch.func.jvp(self.function(below, slot), values, directions)[1]
            return moved_by

        changes = torch.func.vmap(change)(*(_spread(part, nodes) for part in parts))
        return Carried(nodes, first.changes.copy_(changes) if free else changes)

    def _values(self, slots: Sequence[int]) -> tuple[Tensor, ...]:
        return tuple(self.tensors[slot].contiguous() for slot in slots)

    def _pulled(
        self, slot: int, numbers: list[int], support: list[int]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """The targets that read a slot, and their gradients at the anchors it depends on."""
        pairs = [(target, self.gradients[n]) for n in numbers for target in self.reads[n][0]]
        arriving = torch.cat([_by_node(target, gradient) for target, gradient in pairs])
        rows = _nodes([target.nodes for target, _ in pairs], arriving.device)
        if support == [slot]:
            return rows, (arriving,)
        pull: Any = torch.func.vjp(self.function(support, slot), *self._values(support))[1]
        return rows, torch.func.vmap(pull)(arriving)


def _spread(part: Carried, nodes: list[int]) -> Tensor:
    """The changes of these nodes, 0 for those that are not among the carried ones."""
    if part.nodes == nodes:
        return part.changes
    spread = part.changes.new_zeros(len(nodes), *part.changes.shape[1:])
    spread[[nodes.index(node) for node in part.nodes]] = part.changes
    return spread


def _joined(parts: Sequence[Carried]) -> Tensor:
    """All changes in one; without a copy if they are side by side in memory."""
    changes = [part.changes for part in parts]
    stores = {change.untyped_storage().data_ptr() for change in changes}
    gaps = [one.data_ptr() + one.nbytes - two.data_ptr() for one, two in pairwise(changes)]
    if len(stores) > 1 or any(gaps):
        return torch.cat(changes)
    first, size = changes[0], sum(map(len, changes))
    return first.as_strided((size, *first.shape[1:]), first.stride(), first.storage_offset())


def _overlap(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors share memory."""
    starts = first.data_ptr(), second.data_ptr()
    return starts[0] < starts[1] + second.nbytes and starts[1] < starts[0] + first.nbytes


def _normed(step: Step, tensor: Tensor, changes: Tensor) -> Tensor:
    """Overwrite what changes of a tensor by what changes behind a layer norm of it.

    A third of the time of `jvp`, and no second copy of all changes.
    """
    centred = tensor - tensor.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + step.kwargs["eps"]).rsqrt()
    unit, weight = centred * scale, step.kwargs["weight"]
    along = torch.einsum("n...d,...d->n...", changes, unit)[..., None] / tensor.shape[-1]
    changes.sub_(changes.mean(-1, keepdim=True)).addcmul_(along, unit, value=-1)
    return changes.mul_(scale if weight is None else scale * weight)


def _nodes(parts: Iterable[slice], device: torch.device) -> Tensor:
    """The numbers of nodes one after the other."""
    return torch.cat([torch.arange(part.start, part.stop) for part in parts]).to(device)


def _by_node(target: Target, gradient: Tensor) -> Tensor:
    """The gradient at what a module reads, nodes x its shape, from that at what it gives."""
    if target.rows is None:
        return gradient[None]
    rows = target.rows.to(gradient.device)
    return torch.einsum("...nw,nwd->n...d", gradient[..., rows], target.weight())
