"""Score a training after every epoch: with your own function, or the metrics on dev data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deadhead.errors import DataError
from deadhead.forward import IGNORED
from deadhead.tasks import Encoded

from .evaluation import evaluate
from .inference import likelihoods

Score = Callable[[Any], "Mapping[str, float] | float"]
Scorer = Callable[[Any, int], "Mapping[str, float] | float"]  # called with model and epoch
SetScorer = Callable[[Any, int], Mapping[str, float]]
Dev = Encoded | Mapping[str, Encoded]


def dev_sets(dev: Dev | None) -> dict[str, Encoded]:
    """The dev data by name, whether it is one set or several."""
    if dev is None:
        return {}
    if isinstance(dev, Mapping):
        return {str(name): encoded for name, encoded in dev.items()}
    return {getattr(getattr(dev, "data", None), "lang", ""): dev}


def scorer(
    score: Score | None, dev: Dev | None, tokenizer: Any, bleu_every: int | None
) -> Scorer | None:
    """The function that scores the model after an epoch; None where nothing is scored."""
    if score is not None:
        own = score
        return lambda model, epoch: own(model)
    scorers = {name: _on_set(dev, tokenizer, bleu_every) for name, dev in dev_sets(dev).items()}
    if len(scorers) < 2:
        return next(iter(scorers.values()), None)

    def score_all(model: Any, epoch: int) -> dict[str, float]:
        """The mean of every metric, then the metric of each set, such as `accuracy de`."""
        scores = {name: score_set(model, epoch) for name, score_set in scorers.items()}
        metrics = list(next(iter(scores.values())))
        means = {m: float(np.mean([own[m] for own in scores.values()])) for m in metrics}
        return means | {f"{m} {name}": own[m] for m in metrics for name, own in scores.items()}

    return score_all


def _on_set(dev: Encoded, tokenizer: Any, bleu_every: int | None) -> SetScorer:
    """The metrics; for translations the mean log-likelihood of a sub-word, and BLEU at times."""

    def metrics(model: Any, epoch: int) -> Mapping[str, float]:
        sets = {dev.data.lang: dev}
        return evaluate(model, sets, tokenizer=tokenizer, progress=False)[dev.data.lang]

    def likelihood(model: Any, epoch: int) -> Mapping[str, float]:
        scores = {"log_likelihood": float(likelihoods(model, dev).sum()) / size}
        if bleu_every is not None and epoch % bleu_every == 0:
            scores["bleu"] = metrics(model, epoch)["bleu"]
        return scores

    if dev.data.task.traits.label_unit != "text":
        return metrics
    if bleu_every is not None and bleu_every < 1:
        hint = "give a number of epochs, or leave it out"
        raise DataError(f"`bleu_every` expects 1 or more, got {bleu_every}.", hint)
    if bleu_every is not None and tokenizer is None:
        message = "scoring translations of the dev data needs a tokenizer."
        raise DataError(message, "give finetune tokenizer=tokenizer")
    size = int((np.asarray(dev.arrays["labels"]) != IGNORED).sum())
    return likelihood
