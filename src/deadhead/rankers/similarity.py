"""Similarity: how little an attention layer changes the residual stream.

He et al. 2024, "What matters in transformers? Not all attention is needed": a layer whose output
leaves the direction of the stream as it was can go. It is a score of layers, so every head of a
layer has the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from deadhead.layout import Batch, HeadLayout

from .ranker import Progress, Ranker, Scores

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Similarity(Ranker):
    """1 minus the cosine between the residual stream without and with the attention of the layer.

    The mean over all tokens. Every head of a layer has the score of its layer.
    """

    reads: ClassVar[Literal["inputs"]] = "inputs"

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Batch],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        from .residual_change import changes

        places = dict.fromkeys((head.block, head.layer) for head in layout)
        change = changes(model, batches, [*places], progress)
        return Scores({head: change[head.block, head.layer] for head in layout})
