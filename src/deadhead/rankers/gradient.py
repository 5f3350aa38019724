"""Gradient and Taylor scores: how much would the loss change if a head's gate closed a little?

Where the absolute value is taken (the `unit`) changes the ranking, and papers differ.
"""

from dataclasses import dataclass
from typing import Literal

from deadhead.layout import Head
from deadhead.ranking.scores import spread, unit_layers

from .ranker import Ranker, RankerInputs, Scores

AbsoluteOf = Literal["per_example", "per_batch", "per_token", "cumulative"]


class GateGradient(Ranker):
    """What both methods share."""

    differentiates = True
    raw_adds_up = True

    unit: AbsoluteOf
    normalize: bool
    rescale: bool

    @property
    def in_file_order(self) -> bool:
        return self.unit in ("per_batch", "cumulative")

    def scaled(self, raw: dict[Head, float]) -> Scores:
        scores = unit_layers(raw) if self.normalize else raw
        return Scores(spread(scores) if self.rescale else scores, raw)


@dataclass(frozen=True)
class Gradient(GateGradient):
    """The mean absolute gradient of the loss at a head's gate (Ma et al.)."""

    unit: AbsoluteOf = "per_example"  # what the absolute value is taken of
    normalize: bool = True  # divide by the L2 norm of the layer
    rescale: bool = True  # then spread over 0 to 1

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .gate_gradients import accumulated
        from .loss import tokens_of

        tokens = tokens_of(inputs.batches)
        sums = accumulated(inputs, self.unit)
        return self.scaled({head: value / tokens for head, value in sums.items()})


@dataclass(frozen=True)
class Taylor(GateGradient):
    """First-order estimate of the loss without the head (Michel et al.), as in their released code.

    With `unit="per_example", last_layer="tokens"` it is `Gradient` before normalisation.
    """

    unit: AbsoluteOf = "per_token"
    # what the last layer is divided by; `auto`: sentences where only one position is classified
    last_layer: Literal["auto", "sentences", "tokens"] = "auto"
    normalize: bool = False
    rescale: bool = False

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .gate_gradients import accumulated
        from .loss import examples_of, output_kind, tokens_of

        layout, batches = inputs.layout, inputs.batches
        counts = dict.fromkeys(layout, tokens_of(batches))
        by_sentences = self.last_layer == "sentences"
        if self.last_layer == "auto" and self.unit == "per_token":
            by_sentences = output_kind(inputs.model, batches[0]) == "classify"
        if by_sentences:  # right below the task layer: the top of the decoder, or of the only stack
            blocks = [b for b in layout.blocks if b in ("decoder", "cross")] or layout.blocks
            last = [head for block in blocks for head in layout.of(block)[-1].heads]
            counts.update(dict.fromkeys(last, sum(map(examples_of, batches))))
        sums = accumulated(inputs, self.unit)
        return self.scaled({head: value / counts[head] for head, value in sums.items()})
