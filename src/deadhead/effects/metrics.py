"""A metric that many studies of heads use: the difference of two logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deadhead.errors import DataError
from deadhead.rankers.loss import positions_of

Tokens = int | Sequence[int] | Tensor


def logit_difference(
    answer: Tokens, wrong: Tokens, position: int = -1
) -> Callable[[Any, Mapping[str, Any]], Tensor]:
    """A metric: the logit of the answer less that of the wrong one, for each example.

    Args:
        answer: the number of a token (or class), for all examples or one for each.
        wrong: likewise.
        position: of the prediction, counted over the real tokens of each example: -1 is its last
            one, whichever side the padding is on. Classifiers have no positions.

    As the loss of `rank` by ablation or shapley it takes one token for all examples: both run
    copies of the batch, which a token for each example does not fit. A loss of your own can read
    the tokens from the batch.

    >>> patch_effects(model, clean, corrupt, logit_difference(mary, john))
    """

    def metric(outputs: Any, batch: Mapping[str, Any]) -> Tensor:
        logits = getattr(outputs, "logits", None)
        if not isinstance(logits, Tensor):
            raise DataError(
                "logit_difference needs logits, and the model gives none.",
                "load the model with a task class, or write a metric of its hidden states",
            )
        rows = torch.arange(len(logits), device=logits.device)
        real = positions_of(outputs, batch)
        if real is not None:
            logits = logits[rows, _places(real.bool(), position)]
        first, second = (_numbers(tokens, logits) for tokens in (answer, wrong))
        return logits[rows, first] - logits[rows, second]

    return metric


def _places(real: Tensor, position: int) -> Tensor:
    """Where the position is in each row."""
    lengths = real.sum(1)
    number = lengths + position if position < 0 else torch.full_like(lengths, position)
    if bool(((number < 0) | (number >= lengths)).any()):
        raise DataError(
            f"position {position} is outside an example of {int(lengths.min())} tokens.",
            "count over the tokens of each example without padding; -1 is the last one",
        )
    return (real.cumsum(1) > number[:, None]).long().argmax(1)


def _numbers(tokens: Tokens, logits: Tensor) -> Tensor:
    """The number of a token for each example."""
    numbers = torch.as_tensor(tokens, device=logits.device)
    if numbers.dim() > 1 or numbers.is_floating_point() or numbers.numel() not in (1, len(logits)):
        raise DataError(
            f"expected a token for all or for each of {len(logits)} examples, got {tokens!r}.",
            "give one whole number, or one for each example of the batch",
        )
    size = logits.shape[-1]
    if bool(((numbers < 0) | (numbers >= size)).any()):
        raise DataError(f"expected tokens from 0 to {size - 1}, got {tokens!r}.")
    return numbers.expand(len(logits))
