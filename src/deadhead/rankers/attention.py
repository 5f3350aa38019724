"""Attention statistics: how widely a head attends (entropy), and how sure it is (confidence).

Both read the attention probabilities alone, before any gate, so they need no labels, and cannot see
what a head does with what it reads: a head whose output weights are 0 scores like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from deadhead.registry.options import Share

from .ranker import Ranker, RankerInputs, Scores

if TYPE_CHECKING:
    from torch import Tensor

Average = Literal["token", "sentence"]  # over all queries at once, or over each sentence first


@dataclass(frozen=True)
class Entropy(Ranker):
    """How focused a head is: minus the mean entropy of its attention.

    `raw` holds the entropy itself, in nats.
    """

    reads: ClassVar[Literal["inputs"]] = "inputs"

    average: Average = "token"
    smoothing: Share = 0.0  # mix in evenly spread attention (Clark et al.: 0.0001)

    def __call__(self, inputs: RankerInputs) -> Scores:
        import torch

        from .attention_maps import statistics

        def entropy(probabilities: Tensor, keys: Tensor) -> Tensor:
            if self.smoothing:
                even = (keys / keys.sum(-1, keepdim=True).clamp(min=1))[:, None, None]
                probabilities = (1 - self.smoothing) * probabilities + self.smoothing * even
            return torch.special.entr(probabilities).sum(-1)

        raw = statistics(inputs, entropy, self.average)
        return Scores({head: -value for head, value in raw.items()}, raw)


@dataclass(frozen=True)
class Confidence(Ranker):
    """How sure a head is: the mean over queries of its largest attention probability."""

    reads: ClassVar[Literal["inputs"]] = "inputs"

    average: Average = "token"

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .attention_maps import statistics

        raw = statistics(inputs, lambda probabilities, _: probabilities.amax(-1), self.average)
        return Scores(raw, raw)
