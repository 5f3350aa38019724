"""Attribution: what ablation would measure, estimated for all heads in one backward pass.

Closing a gate, g * context + (1 - g) * fill from g = 1 to 0, changes the loss by about minus its
gradient at the gate: (fill - context) times the gradient of the loss. With a corrupt run as the
fill this is attribution patching, with the mean it needs no other run, and with zero it is the
Taylor score with its sign.
"""

from dataclasses import dataclass

from deadhead.layout import Head

from .ranker import Fill, Ranker, RankerInputs


@dataclass(frozen=True)
class Attribution(Ranker):
    """First-order estimate of how much the loss rises when the head alone is closed."""

    differentiates = True
    takes_corrupt = True

    fill: Fill = "mean"  # what replaces the head's output: its mean is that on the ranked data

    def __call__(self, inputs: RankerInputs) -> dict[Head, float]:
        from .gate_gradients import estimated_rises

        return estimated_rises(inputs, self.fill)
