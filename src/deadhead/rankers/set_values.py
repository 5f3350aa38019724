"""v(S): the score of a model on the data with only the heads of S open, for many sets at once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from deadhead.forward import device_of
from deadhead.heads.gates import gated
from deadhead.heads.means import head_means
from deadhead.layout import Batch, Head

from .loss import IGNORED, LOSS, FiniteLoss, examples_of, losses_and_right, on_device, output_kind
from .ranker import Fill, RankerInputs
from .replay import repeated


class SetValues:
    """The values of sets of closed heads, many sets to a forward pass."""

    def __init__(self, inputs: RankerInputs, *, measure: str, fill: Fill, rows: int | None):
        self.inputs, self.measure = inputs, measure
        self.rows = rows or (64 if device_of(inputs.model).type == "cpu" else 1024)
        # means of the whole model: those of a set of heads would be another game
        self.fill = head_means(inputs.model, inputs.batches) if fill == "mean" else fill

    @torch.no_grad()
    def __call__(self, sets: Sequence[frozenset[Head]]) -> list[float]:
        total = torch.zeros(len(sets), dtype=torch.float64)
        count, finite = 0, FiniteLoss()
        for batch in self.inputs.batches:
            batch = on_device(batch, self.inputs.model)
            at_once = max(1, self.rows // examples_of(batch))
            for i in range(0, len(sets), at_once):
                part = sets[i : i + at_once]
                total[i : i + len(part)] += self._values(batch, part, finite).cpu()
            count += self._summands(batch)
        finite.check()
        return [float(t) for t in total / count]

    def _values(self, batch: Batch, sets: Sequence[frozenset[Head]], finite: FiniteLoss) -> Tensor:
        """The sum of the values of one batch under each set."""
        model = self.inputs.model
        gates = self._gates(sets)
        gates = {b: gate.repeat_interleave(examples_of(batch), 0) for b, gate in gates.items()}
        with gated(model, gates, fill=self.fill):
            losses, right = losses_and_right(model, repeated(batch, len(sets)))
        if list(sets) == [frozenset()]:  # once: the largest of nan is a class like any other
            finite.add(losses)
        values = right if self.measure == "accuracy" else -losses
        return values.view(len(sets), -1).sum(1)

    def _summands(self, batch: Batch) -> int:
        """How many numbers the value of a batch is the sum of."""
        if LOSS in batch:
            return examples_of(batch)
        labelled = batch["labels"].view(examples_of(batch), -1) != IGNORED
        if output_kind(self.inputs.model, batch) == "causal":
            labelled = labelled[:, 1:]
        return int((labelled if self.measure == "accuracy" else labelled.any(1)).sum())

    def _gates(self, sets: Sequence[frozenset[Head]]) -> dict[str, Tensor]:
        """Sets x layers x heads for each block, 0 where a head is closed."""
        layout = self.inputs.layout
        rows = {
            (block, attention.layer): row
            for block in layout.blocks
            for row, attention in enumerate(layout.of(block))
        }
        gates = {b: torch.ones(len(sets), layout.layers(b), layout.size(b)) for b in layout.blocks}
        for number, closed in enumerate(sets):
            for head in closed:
                gates[head.block][number, rows[head[:2]], head.index] = 0
        return gates
