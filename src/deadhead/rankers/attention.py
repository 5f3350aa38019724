"""Attention statistics: how widely a head attends (entropy), and how sure it is (confidence).

Both read the attention probabilities alone, before any gate, so they need no labels, and cannot see
what a head does with what it reads: a head whose output weights are 0 scores like any other.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from .ranker import Ranker, RankerInputs, Scores


@dataclass(frozen=True)
class Entropy(Ranker):
    """How focused a head is: minus the mean entropy of its attention.

    `raw` holds the entropy itself, in nats.
    """

    reads: ClassVar[Literal["inputs"]] = "inputs"

    def __call__(self, inputs: RankerInputs) -> Scores:
        import torch

        from .attention_maps import statistics

        raw = statistics(inputs, lambda maps: torch.special.entr(maps).sum(-1))
        return Scores({head: -value for head, value in raw.items()}, raw)


@dataclass(frozen=True)
class Confidence(Ranker):
    """How sure a head is: the mean over queries of its largest attention probability."""

    reads: ClassVar[Literal["inputs"]] = "inputs"

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .attention_maps import statistics

        raw = statistics(inputs, lambda maps: maps.amax(-1))
        return Scores(raw, raw)
