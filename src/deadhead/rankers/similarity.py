"""Similarity: how little an attention layer changes the residual stream.

He et al. 2024, "What matters in transformers? Not all attention is needed": a layer whose output
leaves the direction of the stream as it was can go. It is a score of layers, so every head of a
layer has the same.
"""

from dataclasses import dataclass

from deadhead.layout import Head

from .ranker import Ranker, RankerInputs


@dataclass(frozen=True)
class Similarity(Ranker):
    """1 minus the cosine between the residual stream without and with the attention of the layer.

    The mean over all tokens. Every head of a layer has the score of its layer.
    """

    reads = "inputs"

    def __call__(self, inputs: RankerInputs) -> dict[Head, float]:
        from .residual_change import changes

        change = changes(inputs)
        return {head: change[head[:2]] for head in inputs.layout}
