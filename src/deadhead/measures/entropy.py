"""Attention entropy: how widely each head attends, in nats.

The entropy of a query is -sum_j p_j ln p_j over the keys that are no padding; a head's entropy is
the mean over all queries that are no padding. The probabilities are those before the gate, of the
heads that are left. The ranker of the same name computes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deadhead.registry.options import Count, Share

from .measure import Measure, MeasureInputs, Split


@dataclass(frozen=True)
class Entropy(Measure):
    """The entropy of every head that is left, by its name."""

    label = "Attention entropy"
    help = "How widely each head attends: zero where it reads a single token."
    legend = "entropy, nats"
    reads = "training data"

    sentences: Count = 500  # the first of the split, shared evenly by the languages of training
    split: Split = "dev"
    average: Literal["token", "sentence"] = "token"  # `sentence`: over each sentence first
    smoothing: Share = 0.0  # mix in evenly spread attention (Clark et al.: 0.0001)

    def __call__(self, model: Any, inputs: MeasureInputs) -> dict[str, float]:
        batches = inputs.batches(self.split, self.sentences)
        return entropy(model, batches, average=self.average, smoothing=self.smoothing)


def entropy(
    model: Any,
    batches: Iterable[Mapping[str, Any]],
    *,
    average: str = "token",
    smoothing: float = 0.0,
) -> dict[str, float]:
    """The mean attention entropy of each head, in nats.

    >>> entropy(model, batches)["encoder.0.3"]
    1.87
    """
    from deadhead.rankers import rank

    ranking = rank(model, batches, "entropy", average=average, smoothing=float(smoothing))
    return {str(head): float(value) for head, value in (ranking.raw or {}).items()}
