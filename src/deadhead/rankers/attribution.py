"""Attribution: what ablation would measure, estimated for all heads in one backward pass.

Closing a gate, g * context + (1 - g) * fill from g = 1 to 0, changes the loss by about minus its
gradient at the gate: (fill - context) times the gradient of the loss. With a corrupt run as the
fill this is attribution patching, with the mean it needs no other run, and with zero it is the
Taylor score with its sign.

With steps these are integrated gradients (Sundararajan et al., 2017): the gradients are averaged
over the way on which all gates close together, so that the scores add up to what closing all heads
does to the loss. A score is then the share of a head in that, no longer its effect alone.
"""

from dataclasses import dataclass

from deadhead.layout import Head
from deadhead.registry.options import Count

from .ranker import Fill, Ranker, RankerInputs


@dataclass(frozen=True)
class Attribution(Ranker):
    """First-order estimate of how much the loss rises when the head alone is closed."""

    differentiates = True
    takes_fill = True

    fill: Fill = "mean"  # what replaces the head's output: its mean is that on the ranked data
    steps: Count | None = None  # for integrated gradients; by default the gradient at open gates

    @property
    def probed(self) -> bool:
        return self.steps is None  # where gates are not open, a distance has a gradient

    @property
    def passes(self) -> float:
        return 3.0 * (self.steps or 1)

    def __call__(self, inputs: RankerInputs) -> dict[Head, float]:
        from .gate_gradients import estimated_rises, integrated_rises

        if self.steps is None:
            return estimated_rises(inputs, self.fill)
        return integrated_rises(inputs, self.fill, self.steps)
