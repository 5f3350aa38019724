"""Attention entropy: how widely each head looks, in nats.

The entropy of a query is -sum_j p_j ln p_j over the keys that are no padding; a head's is the mean over
all queries that are no padding. The probabilities are those before the gate, of the heads that are left.
The arithmetic is that of the ranker of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deadhead.errors import DataError, unknown_name

from . import Given, check_split, check_whole

AVERAGES = ("token", "sentence")


@dataclass(frozen=True)
class Entropy:
    """The entropy of every head that is left, by its name."""

    sentences: int = 500  # the first of the split, shared evenly by the languages of training
    split: str = "dev"
    average: str = "token"  # or `sentence`: over each sentence first
    smoothing: float = (
        0.0  # the share of evenly spread attention that is mixed in (Clark et al.: 0.0001)
    )

    def __post_init__(self) -> None:
        check_whole("sentences", self.sentences)
        check_split(self.split)
        if self.average not in AVERAGES:
            raise unknown_name("average", self.average, AVERAGES)
        if (
            isinstance(self.smoothing, bool)
            or not isinstance(self.smoothing, int | float)
            or not 0 <= self.smoothing < 1
        ):
            raise DataError(
                f"smoothing is {self.smoothing!r}.", "give a share from 0 up to, but not, 1"
            )

    def __call__(self, model: Any, given: Given) -> dict[str, float]:
        return entropy(
            model,
            given.batches(self.split, self.sentences),
            average=self.average,
            smoothing=self.smoothing,
        )


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

    found = rank(model, batches, "entropy", average=average, smoothing=float(smoothing))
    return {str(head): float(value) for head, value in (found.raw or {}).items()}
