"""How a translation model is scored while it trains: how likely it finds the dev data, and now and then its BLEU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.encoding.encode import IGNORED, Encoded

from .prediction import likelihoods


def on_pairs(
    dev: Encoded, tokenizer: Any = None, bleu_every: int | None = None
) -> Callable[[Any, int], dict[str, float]]:
    """A function of the model and the epoch: the mean log-likelihood of a sub-word, which is minus the loss; BLEU every so many epochs."""
    from .evaluation import evaluate

    if bleu_every is not None and bleu_every < 1:
        raise DataError(f"bleu_every is {bleu_every}.", "give a number of epochs, or leave it out")
    if bleu_every is not None and tokenizer is None:
        raise DataError(
            "translations of the dev data need a tokenizer to be scored.",
            "give finetune tokenizer=tokenizer",
        )
    size = int((np.asarray(dev.arrays["labels"]) != IGNORED).sum())

    def scored(model: Any, epoch: int) -> dict[str, float]:
        found = {"log_likelihood": float(likelihoods(model, dev).sum()) / size}
        if bleu_every is not None and epoch % bleu_every == 0:
            found["bleu"] = evaluate(model, {dev.data.lang: dev}, tokenizer=tokenizer)[
                dev.data.lang
            ]["bleu"]
        return found

    return scored
