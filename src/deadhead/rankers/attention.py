"""Attention statistics: how widely a head attends (entropy), and how sure it is (confidence).

Both read the attention probabilities alone, before any gate, so they need no labels, and cannot see
what a head does with what it reads: a head whose output weights are 0 scores like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deadhead.registry.options import Share

from .ranker import Ranker, RankerInputs, Scores

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Entropy(Ranker):
    """How focused a head is: minus the mean entropy of its attention.

    `raw` holds the entropy itself, in nats.
    """

    reads = "inputs"

    average: Literal["token", "sentence"] = "token"  # `sentence`: over each sentence first
    smoothing: Share = 0.0  # mix in evenly spread attention (Clark et al.: 0.0001)

    def __call__(self, inputs: RankerInputs) -> Scores:
        import torch

        from .attention_maps import statistics

        def entropy(maps: Tensor, keys: Tensor) -> Tensor:
            if self.smoothing:
                even = (keys / keys.sum(-1, keepdim=True).clamp(min=1))[:, None, None]
                maps = (1 - self.smoothing) * maps + self.smoothing * even
            return torch.special.entr(maps).sum(-1)

        raw = statistics(inputs, entropy, by_sentence=self.average == "sentence")
        return Scores({head: -value for head, value in raw.items()}, raw)


@dataclass(frozen=True)
class Confidence(Ranker):
    """How sure a head is: the mean over queries of its largest attention probability."""

    reads = "inputs"

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .attention_maps import statistics

        raw = statistics(inputs, lambda maps, _: maps.amax(-1))
        return Scores(raw, raw)
