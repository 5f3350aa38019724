"""Ablation: the exact change when one head alone is closed. The yardstick for all other methods."""

import math
from dataclasses import dataclass
from typing import Literal

from deadhead.registry.options import Count

from .ranker import HEADS, Fill, Ranker, RankerInputs, Scores


@dataclass(frozen=True)
class Ablation(Ranker):
    """How much the loss rises, or the accuracy falls, when the head alone is closed."""

    takes_fill = True

    measure: Literal["loss", "accuracy"] = "loss"  # accuracy is that of labelled tokens
    fill: Fill = "zero"  # what replaces the head's output: its mean is that on the ranked data
    tokens: Count | None = None  # at most, padding counted, in one pass of at least one batch

    @property
    def passes(self) -> float:
        return HEADS / 2  # layers below the closed head are not computed again

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .closed_heads import with_each_head_closed

        (loss, accuracy), closed = with_each_head_closed(inputs, self.fill, self.tokens)
        rises = {head: without - loss for head, (without, _) in closed.items()}
        if math.isnan(accuracy):  # measured by a loss without labels
            return Scores(rises, details={"loss": loss})
        falls = {head: accuracy - without for head, (_, without) in closed.items()}
        scores, other, name = rises, falls, "fall in accuracy"
        if self.measure == "accuracy":
            scores, other, name = falls, rises, "rise in loss"
        details = {"loss": loss, "accuracy": accuracy, name: {str(h): v for h, v in other.items()}}
        return Scores(scores, details=details)
