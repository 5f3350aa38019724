"""Ablation: the exact change when one head alone is closed. The yardstick for all other methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deadhead.layout import HeadLayout
from deadhead.options import Count

from .ranker import Progress, Ranker, Scores

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Ablation(Ranker):
    """How much the loss rises, or the accuracy falls, when the head alone is closed."""

    measure: Literal["loss", "accuracy"] = "loss"  # accuracy is that of labelled tokens
    tokens: Count | None = None  # at most, padding counted, in one pass of at least one batch

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        from .closed_heads import with_each_head_closed
        from .fills import zero

        fills = [zero] * len(batches)
        whole, closed = with_each_head_closed(
            model, layout, batches, fills=fills, tokens=self.tokens, progress=progress
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
