"""Edge attribution patching: the effect of every edge of a model, to first order, at once.

An edge leads from what a source adds to the residual stream to a target that reads it. The change
of the source is carried up the stream through the derivatives of whatever lies between, and meets
the gradient at the target. Where a norm follows each addition, as in BERT, its derivative at the
clean run is part of the way, so an edge is the derivative of what `path_effects` patches exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import device_of
from deadhead.heads.hooks import hooked
from deadhead.layout import Batch
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen, refuse_resampling

from .graph import EdgeEffects
from .metrics import Metric, mean_of, measured
from .stream import PATCH_HEADS, Contribution, Nodes, Run, Target
from .tape import Step


class Carried(NamedTuple):
    """What contributions change at a slot: their numbers, and the change by each of their nodes."""

    numbers: tuple[int, ...]
    changes: Tensor  # nodes x the shape of the slot's tensor


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
        steps: mean of the gradients at so many points between the corrupt and the clean input
            embeddings, of which the last one is clean (EAP-IG, Hanna et al. 2024).
        progress: as for `patch_effects`.

    >>> edges = edge_effects(model, clean, corrupt, logit_difference(mary, john))
    >>> edges.frame().head()
    """
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise DataError(f"`steps` expects a whole number from 1, got {steps!r}.", "write steps=5")
    refuse_resampling(model)
    nodes, pairs = Nodes(model), check_pairs(clean, corrupt)
    per_example = PerExample(metric, "metric")
    shape = len(nodes.target_names), len(nodes.source_names)
    exists, means = torch.zeros(shape, dtype=torch.bool), []
    precision = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    scores = torch.zeros(shape, device=device_of(model), dtype=precision)
    with frozen(model, seed=0), hooked(model, nodes.sites), reported(progress, "edges") as count:
        for number, (first, second) in enumerate(pairs):
            other, corrupt_metric = recorded(nodes, second, per_example)
            changes: list[Tensor] = []
            for step in range(steps, 0, -1):
                run = _Gradients(nodes, other, step / steps)
                values = run(first, per_example)
                if not changes:  # of the clean run
                    means.append((values, corrupt_metric))
                    changes = changes_of(run.added, other)
                    run.mark(exists)
                run.add_scores(changes, scores)
                del run  # its memory, before the next one
                count(number * steps + steps - step + 1, len(pairs) * steps)
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
def recorded(
    nodes: Nodes, batch: Batch, metric: PerExample
) -> tuple[Sequence[Contribution], Tensor]:
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
    """What each node adds in the second run, less what it adds in the first one."""
    if [each.source for each in first] != [each.source for each in second]:
        raise UnsupportedModel(
            "the clean and the corrupt run use the layers in another order.", PATCH_HEADS
        )
    together: dict[torch.Size, int] = {}
    for each in first:
        shape = each.output.shape
        together[shape] = together.get(shape, 0) + len(each.source.names)
    # side by side in memory, so that sums of the stream need no copies: `_joined`
    free = {shape: first[0].output.new_empty(n, *shape) for shape, n in together.items()}
    changes = []
    for one, two in zip(first, second, strict=True):
        size, shape = len(one.source.names), one.output.shape
        changes.append(free[shape][:size].copy_(one.change(two)))
        free[shape] = free[shape][size:]
    return changes


class _Gradients(Run):
    """A run that keeps the gradient of the metric at every target.

    share: of the clean input embeddings; the rest is corrupt.
    """

    def __init__(self, nodes: Nodes, other: Sequence[Contribution], share: float):
        super().__init__(nodes, total=len(other))
        self.share = share
        self.corrupt_inputs = [o.output for o in other if o.source in nodes.inputs]
        self.leaves: list[Tensor] = []
        self.gradients: dict[int, Tensor] = {}  # the number of a read -> at what it gave

    def input(self, number: int, embeddings: Tensor) -> Tensor:
        mixed = self.corrupt_inputs[number].lerp(embeddings, self.share)
        self.leaves.append(mixed.detach().requires_grad_())
        return self.leaves[-1].clone()  # the model may change it in place

    def read(self, targets: list[Target], slot: int, tensor: Tensor) -> Tensor:
        alias = super().read(targets, slot, tensor)
        if targets[0].rows is None:
            self._await(alias)
        return alias

    def projected(self, targets: list[Target], slot: int, output: Tensor) -> Tensor:
        if targets[0].rows is not None:
            self._await(output)
        return output

    def _await(self, tensor: Tensor) -> None:
        """Keep the gradient that will arrive for the last read."""
        number = len(self.reads) - 1
        if tensor.requires_grad:
            # a hook, since the model may later change the tensor in place
            tensor.register_hook(lambda gradient: self.gradients.setdefault(number, gradient))

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
        """Add the change of each source times the gradient at each target, targets x sources."""
        anchors = self._anchors()
        reads: dict[int, list[int]] = {}
        for number in self.gradients:
            reads.setdefault(self.reads[number][1], []).append(number)
        support = {slot: self._support(slot, anchors) for slot in reads}
        sources = {each.slot: number for number, each in enumerate(self.added)}
        below = {n: self._below(n, anchors) for n in anchors if n not in sources}
        last: dict[int, int] = {}
        for slot, used in (*support.items(), *below.items()):
            last.update((n, max(slot, last.get(n, 0))) for n in used)
        carried: dict[int, Carried] = {}
        for slot in range(len(self.tensors)):
            if slot in sources:
                carried[slot] = Carried((sources[slot],), changes[sources[slot]])
            elif slot in anchors and slot in last:
                carried[slot] = self._carried(below[slot], slot, carried)
            if slot in reads:
                self._meet(reads[slot], support[slot], carried, scores)
            for done in [n for n in carried if last.get(n, 0) <= slot]:
                del carried[done]

    def _anchors(self) -> set[int]:
        """The slots to which changes are carried: sources, sums, and what is added."""
        anchors = {each.slot for each in self.added if each.slot is not None}
        for number, step in enumerate(self.steps):
            if step is not None and step.is_addition:
                anchors |= {number, *step.inputs}
        return anchors

    def _support(self, slot: int, anchors: set[int]) -> list[int]:
        """The nearest anchors that a slot is computed from; itself, if it is one."""
        found, seen = [], [slot]
        visited = {slot}
        while seen:
            number = seen.pop()
            step = self.steps[number]
            if number in anchors or step is None:
                found.append(number)
                continue
            new = set(step.inputs) - visited
            visited |= new
            seen += new
        return sorted(found)

    def _below(self, slot: int, anchors: set[int]) -> list[int]:
        """The nearest anchors below an anchor."""
        step = self.steps[slot]
        assert step is not None
        return sorted({n for each in step.inputs for n in self._support(each, anchors)})

    def _carried(self, below: list[int], slot: int, carried: Mapping[int, Carried]) -> Carried:
        """The changes at a slot, from those at the anchors below."""
        step, parts = self.steps[slot], [carried[n] for n in below]
        if step is not None and step.is_addition and len(parts) == 2:
            disjoint = set(parts[0].numbers).isdisjoint(parts[1].numbers)
            if disjoint and parts[0].changes.shape[1:] == parts[1].changes.shape[1:]:
                parts.sort(key=lambda part: part.numbers)
                changes = _joined(parts[0].changes, parts[1].changes)
                return Carried(parts[0].numbers + parts[1].numbers, changes)
        alike = self.tensors[slot].shape == self.tensors[below[0]].shape
        if step is not None and step.adds_constant and step.inputs == tuple(below) and alike:
            return parts[0]
        normed = step is not None and step.function is F.layer_norm and len(step.args[1]) == 1
        if step is not None and normed and step.inputs == tuple(below):
            return Carried(
                parts[0].numbers, _normed(step, self.tensors[below[0]], parts[0].changes)
            )
        values = tuple(self.tensors[n] for n in below)

        def change(*directions: Tensor) -> Tensor:
            moved_by: Tensor = torch.func.jvp(self._function(below, slot), values, directions)[1]
            return moved_by

        numbers = tuple(sorted({n for part in parts for n in part.numbers}))
        directions = [self._spread(part, numbers) for part in parts]
        return Carried(numbers, torch.func.vmap(change)(*directions))

    def _spread(self, part: Carried, numbers: tuple[int, ...]) -> Tensor:
        """The changes of these sources, 0 for those that are not among the carried ones."""
        if part.numbers == numbers:
            return part.changes
        sizes = [len(self.added[n].source.names) for n in part.numbers]
        blocks = dict(zip(part.numbers, part.changes.split(sizes), strict=True))
        shape = part.changes.shape[1:]
        return torch.cat(
            [
                blocks[n]
                if n in blocks
                else part.changes.new_zeros(len(self.added[n].source.names), *shape)
                for n in numbers
            ]
        )

    def _function(self, below: Sequence[int], slot: int) -> Any:
        return lambda *values: self.replay(dict(zip(below, values, strict=True)), slot)

    def _meet(
        self, numbers: list[int], support: list[int], carried: Mapping[int, Carried], scores: Tensor
    ) -> None:
        """Take the gradients at the reads of a slot back to the anchors that it depends on."""
        slot = self.reads[numbers[0]][1]
        shape = self.tensors[slot].shape
        pairs = [(target, self.gradients[n]) for n in numbers for target in self.reads[n][0]]
        rows = _nodes([target.nodes for target, _ in pairs], scores.device)
        arriving = torch.cat([_by_node(target, gradient, shape) for target, gradient in pairs])
        pulled: Sequence[Tensor] = (arriving,)
        if support != [slot]:
            values = tuple(self.tensors[n] for n in support)
            pull: Any = torch.func.vjp(self._function(support, slot), *values)[1]
            pulled = torch.func.vmap(pull)(arriving)
        for anchor, part in zip(support, pulled, strict=True):
            sources = [self.added[n].source.nodes for n in carried[anchor].numbers]
            products = torch.zeros(len(rows), scores.shape[1]).to(scores)
            columns = _nodes(sources, scores.device)
            products.index_add_(1, columns, _products(part, carried[anchor].changes).to(scores))
            scores.index_add_(0, rows, products)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Both stacks as one; without a copy if they are side by side in memory."""
    start, same = first.storage_offset(), first.untyped_storage().data_ptr()
    adjacent = second.storage_offset() == start + first.numel()
    if not adjacent or second.untyped_storage().data_ptr() != same:
        return torch.cat([first, second])
    size = (len(first) + len(second), *first.shape[1:])
    return first.as_strided(size, first.stride(), start)


def _normed(step: Step, tensor: Tensor, changes: Tensor) -> Tensor:
    """What changes of a tensor change behind a layer norm: a third of the time of `jvp`."""
    centred = tensor - tensor.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + step.kwargs["eps"]).rsqrt()
    unit, weight = centred * scale, step.kwargs["weight"]
    along = torch.einsum("n...d,...d->n...", changes, unit)[..., None] / tensor.shape[-1]
    normed = (changes - changes.mean(-1, keepdim=True)).addcmul_(along, unit, value=-1)
    return normed.mul_(scale if weight is None else scale * weight)


def _nodes(parts: Iterable[slice], device: torch.device) -> Tensor:
    """The numbers of nodes one after the other."""
    return torch.cat([torch.arange(part.start, part.stop) for part in parts]).to(device)


def _by_node(target: Target, gradient: Tensor, shape: torch.Size) -> Tensor:
    """The gradient at what a module reads, nodes x its shape, from that at what it gives."""
    if target.rows is None:
        return gradient[None]
    rows = target.rows.to(gradient.device)
    flat = gradient.reshape(-1, gradient.shape[-1])[:, rows.flatten()]
    by_node = flat.unflatten(1, rows.shape).transpose(0, 1)
    return (by_node @ target.weight()).unflatten(1, shape[:-1])


def _products(first: Tensor, second: Tensor) -> Tensor:
    """All products of the rows of two stacks of tensors."""
    kind = torch.promote_types(first.dtype, torch.float32)
    return first.flatten(1).to(kind) @ second.flatten(1).to(kind).T
