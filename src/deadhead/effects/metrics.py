"""Metrics that many studies of heads use: a logit, and the difference of two."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DataError
from deadhead.forward import device_of, forward, on_device
from deadhead.layout import Batch
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import positions_of

Metric = Callable[[Any, Batch], Tensor]  # (outputs of the model, batch) -> one number per example
Tokens = int | Sequence[int] | Tensor


def logit(token: Tokens, position: Tokens = -1) -> Metric:
    """A metric: the logit of a token (or class) for each example; arguments as below."""

    def metric(outputs: Any, batch: Batch) -> Tensor:
        logits = getattr(outputs, "logits", None)
        if not isinstance(logits, Tensor):
            raise DataError(
                "a logit as the metric needs logits, and the model gives none.",
                "load the model with a task class, or write a metric of its hidden states",
            )
        if logits.dim() > 2:
            real = positions_of(outputs, batch)
            assert real is not None  # for mypy: logits have positions
            logits = _at(logits, real.bool(), at)
        return _logits_of(number, logits)

    number, at = _numbers("a token", token), _numbers("a position", position)
    return metric


def logit_difference(answer: Tokens, wrong: Tokens, position: Tokens = -1) -> Metric:
    """A metric: the logit of the answer less that of the wrong one, for each example.

    Args:
        answer: the number of a token (or class), for all examples or one for each.
        wrong: likewise.
        position: of the prediction, for all examples or one for each, counted over the real tokens
            of an example: -1 is its last one, whichever side the padding is on. Classifiers have
            no positions.

    As the loss of `rank` by ablation or shapley it takes one token for all examples: both run
    copies of the batch, which a token for each example does not fit. A loss of your own can read
    the tokens from the batch.

    >>> patch_effects(model, clean, corrupt, logit_difference(mary, john))
    """
    first, second = logit(answer, position), logit(wrong, position)
    return lambda outputs, batch: first(outputs, batch) - second(outputs, batch)


def measured(model: nn.Module, batch: Batch, metric: PerExample) -> Tensor:
    """Run a batch; gives its metric."""
    return metric(forward(model, on_device(batch, model)), moved(batch, model))


def moved(batch: Batch, model: nn.Module) -> dict[str, Any]:
    """The batch of a metric on the device of the model, with every entry that the user gave."""
    device = device_of(model)
    return {n: v.to(device) if isinstance(v, Tensor) else v for n, v in batch.items()}


def mean_of(values: Sequence[Tensor], run: str) -> float:
    """The mean of a metric over all examples of all batches."""
    together = torch.cat(list(values)).cpu()
    if not bool(together.isfinite().all()):
        row = int((~together.isfinite()).nonzero()[0])
        raise DataError(
            f"the metric of example {row} is not a finite number in the {run}.",
            "check the metric, and the model's weights for nan",
        )
    return float(together.double().mean())


def _at(logits: Tensor, real: Tensor, position: Tensor) -> Tensor:
    """The logits at the position of each row; real: which positions are no padding."""
    _check("a position", position, len(logits))
    lengths = real.sum(1)
    at = position.to(lengths.device).expand_as(lengths)
    numbers = torch.where(at < 0, lengths + at, at)
    outside = ((numbers < 0) | (numbers >= lengths)).nonzero()
    if len(outside):
        row = int(outside[0])
        raise DataError(
            f"position {int(at[row])} is outside an example of {int(lengths[row])} tokens.",
            "count over the tokens of each example without padding; -1 is the last one",
        )
    places = (real.cumsum(1) > numbers[:, None]).long().argmax(1)
    return logits[torch.arange(len(logits), device=logits.device), places]


def _logits_of(tokens: Tensor, logits: Tensor) -> Tensor:
    """The logit of the token of each example."""
    _check("a token", tokens, len(logits))
    size = logits.shape[-1]
    if bool(((tokens < 0) | (tokens >= size)).any()):
        raise DataError(
            f"expected tokens from 0 to {size - 1}, got {tokens.tolist()}.",
            "take them from the tokenizer of this model",
        )
    if tokens.numel() == 1:
        return logits[:, int(tokens)]
    return logits.gather(1, tokens.to(logits.device)[:, None])[:, 0]


def _numbers(what: str, numbers: Tokens) -> Tensor:
    try:
        listed = torch.as_tensor(numbers).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise _no_number(what, numbers) from None
    if listed.dim() > 1 or listed.is_floating_point() or listed.dtype == torch.bool:
        raise _no_number(what, listed.tolist())
    return listed


def _no_number(what: str, numbers: Any, examples: str = "example") -> DataError:
    return DataError(
        f"expected {what} as a whole number, or one for each {examples}, got {numbers!r}.",
        "tokenizer.convert_tokens_to_ids gives the number of a token; -1 is the last position; "
        "ablation and shapley run copies of a batch and take one number for all",
    )


def _check(what: str, numbers: Tensor, examples: int) -> None:
    """Raise an error unless there is one number, or one for each example."""
    if numbers.numel() not in (1, examples):
        raise _no_number(what, numbers.tolist(), f"of {examples} examples")
