"""Edge attribution patching: the effect of every edge of a model, to first order, at once.

An edge leads from what a source adds to the residual stream to a target that reads it. The change
of the source is carried up the stream through the derivatives of whatever lies between, and meets
the gradient at the target. Where a norm follows each addition, as in BERT, its derivative at the
clean run is part of the way, so an edge is the derivative of what `path_effects` patches exactly.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import device_of, forward, on_device
from deadhead.heads.hooks import hooked
from deadhead.layout import Batch
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen, refuse_resampling

from .graph import EdgeEffects
from .metrics import Metric, mean_of, moved
from .stream import PATCH_HEADS, Contribution, Nodes, Run, Target

Blocks = dict[int, Tensor]  # the number of a contribution -> nodes x the shape of a tensor


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
    measured = PerExample(metric, "metric")
    shape = len(nodes.target_names), len(nodes.source_names)
    exists, means = torch.zeros(shape, dtype=torch.bool), []
    precision = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    scores = torch.zeros(shape, device=device_of(model), dtype=precision)
    with frozen(model, seed=0), hooked(model, nodes.sites), reported(progress, "edges") as count:
        for number, (first, second) in enumerate(pairs):
            other, corrupt_metric = recorded(nodes, second, measured)
            changes: list[Tensor] = []
            for step in range(steps, 0, -1):
                run = _Gradients(nodes, other, step / steps)
                values = run(first, measured)
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
        values = metric(
            forward(nodes.model, on_device(batch, nodes.model)), moved(batch, nodes.model)
        )
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
    return [
        one.source.parts_of(two.context - one.context, two.output - one.output)
        for one, two in zip(first, second, strict=True)
    ]


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
        model = self.nodes.model
        with self.recording():
            values = metric(forward(model, on_device(batch, model)), moved(batch, model))
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
        blocks: dict[int, Blocks] = {}
        for slot in range(len(self.tensors)):
            if slot in sources:
                blocks[slot] = {sources[slot]: changes[sources[slot]]}
            elif slot in anchors and slot in last:
                blocks[slot] = self._carried(below[slot], slot, blocks)
            for number in reads.get(slot, ()):
                self._meet(number, support[slot], blocks, scores)
            for done in [n for n in blocks if last.get(n, 0) <= slot]:
                del blocks[done]

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

    def _carried(self, below: list[int], slot: int, blocks: dict[int, Blocks]) -> Blocks:
        """The changes at a slot, from those at the anchors below."""
        step = self.steps[slot]
        shapes = {self.tensors[n].shape for n in (slot, *below)}
        if step is not None and step.is_addition and len(shapes) == 1 and len(below) == 2:
            first, second = (blocks[n] for n in below)
            both = {n: first[n] + second[n] for n in first.keys() & second.keys()}
            return {**first, **second, **both}
        values = tuple(self.tensors[n] for n in below)

        def change(*directions: Tensor) -> Tensor:
            moved_by: Tensor = torch.func.jvp(self._function(below, slot), values, directions)[1]
            return moved_by

        carried = {}
        for number in {n for each in below for n in blocks[each]}:
            like = next(blocks[n][number] for n in below if number in blocks[n])
            directions = [
                blocks[n][number]
                if number in blocks[n]
                else self.tensors[n].new_zeros(len(like), *self.tensors[n].shape)
                for n in below
            ]
            carried[number] = torch.func.vmap(change)(*directions)
        return carried

    def _function(self, below: Sequence[int], slot: int) -> Any:
        return lambda *values: self.replay(dict(zip(below, values, strict=True)), slot)

    def _meet(
        self, number: int, support: list[int], blocks: dict[int, Blocks], scores: Tensor
    ) -> None:
        """Take the gradients at a read back to the anchors that it depends on."""
        targets, slot = self.reads[number]
        gradient = self.gradients[number]
        for target in targets:
            arriving = _by_node(target, gradient, self.tensors[slot].shape)
            pulled = (arriving,)
            if support != [slot]:
                values = tuple(self.tensors[n] for n in support)
                pull: Any = torch.func.vjp(self._function(support, slot), *values)[1]
                pulled = torch.func.vmap(pull)(arriving)
            for anchor, part in zip(support, pulled, strict=True):
                for source, block in blocks[anchor].items():
                    nodes = self.added[source].source.nodes
                    scores[target.nodes, nodes] += _products(part, block).to(scores)


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
