"""v(S): the score of a model on the data with only the heads of S open, for many sets at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deadhead.forward import device_of, options_of
from deadhead.heads.gates import gated
from deadhead.heads.means import head_means
from deadhead.layout import Batch, Head, HeadLayout

from .loss import (
    IGNORED,
    LOSS,
    FiniteLoss,
    examples_of,
    forward,
    losses_from,
    losses_of,
    on_device,
    output_kind,
)
from .ranker import Fill
from .replay import repeated

Closed = frozenset[Head]


class SetValues:
    """The values of sets of closed heads, many sets to a forward pass."""

    def __init__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Batch],
        *,
        measure: str,
        fill: Fill,
        rows: int | None,
    ):
        self.model, self.layout, self.batches, self.measure = model, layout, batches, measure
        self.rows = rows or (64 if device_of(model).type == "cpu" else 1024)
        # means of the whole model: those of a set of heads would be another game
        self.fill = head_means(model, batches) if fill == "mean" else fill
        self.row = {
            (a.block, a.layer): row for b in layout.blocks for row, a in enumerate(layout.of(b))
        }

    @torch.no_grad()
    def __call__(self, sets: Sequence[Closed]) -> list[float]:
        total = torch.zeros(len(sets), dtype=torch.float64)
        count, finite = 0.0, FiniteLoss()
        for batch in self.batches:
            batch = on_device(batch, self.model)
            at_once = max(1, self.rows // examples_of(batch))
            for i in range(0, len(sets), at_once):
                part = sets[i : i + at_once]
                value, number = self._measure(batch, part, finite)
                total[i : i + len(part)] += value.cpu().double()
            count += number
        finite.check()
        return [float(t) for t in total / count]

    def _measure(
        self, batch: dict[str, Tensor], sets: Sequence[Closed], finite: FiniteLoss
    ) -> tuple[Tensor, float]:
        """The sum of the values of one batch under each set, and the number of its summands."""
        examples, whole = examples_of(batch), list(sets) == [frozenset()]
        copies = repeated(batch, len(sets))
        texts = examples * options_of(self.model, batch)
        gates = {b: gate.repeat_interleave(texts, 0) for b, gate in self._gates(sets).items()}
        with gated(self.model, gates, fill=self.fill):
            output = forward(self.model, copies)
        if LOSS in batch:
            losses = losses_from(self.model, copies, output)
            if whole:
                finite.add(losses)
            return -losses.view(len(sets), examples).sum(1), float(examples)
        logits, labels = output.logits, copies["labels"]
        shifted = output_kind(self.model, copies) == "causal"
        if whole:  # once: the largest of nan is a class like any other
            finite.add(losses_of(logits, labels, shifted=shifted))
        if self.measure == "loss":
            labelled = (batch["labels"].view(examples, -1)[:, int(shifted) :] != IGNORED).any(1)
            losses = losses_of(logits, labels, shifted=shifted).view(len(sets), examples)
            return -losses.sum(1), float(labelled.sum())
        if shifted:
            logits, labels = logits[:, :-1], labels[:, 1:]
        labelled = labels != IGNORED
        right = (logits.argmax(-1) == labels) & labelled
        return right.view(len(sets), -1).sum(1), float(labelled.view(len(sets), -1)[0].sum())

    def _gates(self, sets: Sequence[Closed]) -> dict[str, Tensor]:
        """Sets x layers x heads for each block, 0 where a head is closed."""
        sizes = {b: (self.layout.layers(b), self.layout.size(b)) for b in self.layout.blocks}
        gates = {b: torch.ones(len(sets), *size) for b, size in sizes.items()}
        for number, closed in enumerate(sets):
            for head in closed:
                gates[head.block][number, self.row[head.block, head.layer], head.index] = 0
        return gates
