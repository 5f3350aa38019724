"""Ablation: the exact change when one head alone is closed. The yardstick for all other methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from deadhead.layout import Batch, HeadLayout
from deadhead.registry.options import Count

from .ranker import HEADS, Fill, Progress, Ranker, Scores

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Ablation(Ranker):
    """How much the loss rises, or the accuracy falls, when the head alone is closed."""

    takes_corrupt: ClassVar[bool] = True

    measure: Literal["loss", "accuracy"] = "loss"  # accuracy is that of labelled tokens
    fill: Fill = "zero"  # what replaces the head's output: its mean is that on the ranked data
    tokens: Count | None = None  # at most, padding counted, in one pass of at least one batch

    @property
    def passes(self) -> float:
        return HEADS / 2  # layers below the closed head are not computed again

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Batch],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        from .closed_heads import with_each_head_closed
        from .fills import fill_of_batches

        fill_of = fill_of_batches(model, batches, self.fill)
        whole, closed = with_each_head_closed(
            model, layout, batches, fill_of=fill_of, tokens=self.tokens, progress=progress
        )
        by_loss = {head: loss - whole[0] for head, (loss, _) in closed.items()}
        if math.isnan(whole[1]):  # measured by a loss without labels
            return Scores(by_loss, details={"loss": whole[0]})
        by_accuracy = {head: whole[1] - accuracy for head, (_, accuracy) in closed.items()}
        scores, other, name = by_loss, by_accuracy, "fall in accuracy"
        if self.measure == "accuracy":
            scores, other, name = by_accuracy, by_loss, "rise in loss"
        details = {"loss": whole[0], "accuracy": whole[1]}
        return Scores(scores, details={**details, name: {str(h): v for h, v in other.items()}})
