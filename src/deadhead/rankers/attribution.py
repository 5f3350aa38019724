"""Attribution: what ablation would measure, estimated for all heads in one backward pass.

Closing a gate, g * context + (1 - g) * fill from g = 1 to 0, changes the loss by about minus its
gradient at the gate: (fill - context) times the gradient of the loss. With a corrupt run as the
fill this is attribution patching, with the mean it needs no other run, and with zero it is the
Taylor score with its sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from deadhead.display.progress import silent
from deadhead.errors import DeadheadError
from deadhead.layout import Batch, HeadLayout
from deadhead.ranking.compare import spearman

from .ranker import Fill, Progress, Ranker, Scores

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Attribution(Ranker):
    """First-order estimate of how much the loss rises when the head alone is closed."""

    differentiates: ClassVar[bool] = True
    takes_corrupt: ClassVar[bool] = True

    fill: Fill = "mean"  # what replaces the head's output: its mean is that on the ranked data
    agreement: bool = False  # also ablate the first batch: `details` has Spearman's rho with it

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
        from .gate_gradients import estimated_rises
        from .loss import SEEDS, examples_of

        if self.agreement and SEEDS in batches[0]:
            raise DeadheadError(
                "agreement compares losses, and loss=self estimates a distance from probes.",
                "leave agreement out, and rank by ablation as well to compare them",
            )
        fill_of = fill_of_batches(model, batches, self.fill)
        rises = estimated_rises(model, layout, batches, fill_of, progress)
        examples = sum(map(examples_of, batches))
        scores = {head: sum(rise[head] for rise in rises) / examples for head in layout}
        details: dict[str, Any] = {}
        if self.agreement:
            (loss, _), exact = with_each_head_closed(
                model, layout, batches[:1], fill_of=fill_of, progress=silent
            )
            sides = [rises[0][head] for head in layout], [exact[head][0] - loss for head in layout]
            rho = spearman(*sides, exact=False).rho
            agreement = {"spearman": rho if math.isfinite(rho) else None}
            details["agreement"] = {**agreement, "examples": examples_of(batches[0])}
        return Scores(scores, details=details)
