"""What a training is scored by after every epoch: a function of the user's, or the metrics of dev data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deadhead.tasks.encoding.encode import Encoded

from .pairs import on_pairs

Score = Callable[[Any], "Mapping[str, float] | float"]
Scored = Callable[[Any, int], "Mapping[str, float] | float"]
Dev = Encoded | Mapping[str, Encoded]


def dev_sets(dev: Dev | None) -> dict[str, Encoded]:
    """The dev data by name, be it one set or several."""
    if dev is None:
        return {}
    return (
        {str(name): one for name, one in dev.items()}
        if isinstance(dev, Mapping)
        else {getattr(getattr(dev, "data", None), "lang", ""): dev}
    )


def scoring(
    score: Score | None, dev: Dev | None, tokenizer: Any, bleu_every: int | None
) -> Scored | None:
    """What is called with the model and the number of the epoch; None where nothing is scored."""
    if score is not None:
        given = score
        return lambda model, epoch: given(model)
    several = {name: _on_one(one, tokenizer, bleu_every) for name, one in dev_sets(dev).items()}
    if not several:
        return None
    if len(several) == 1:
        return next(iter(several.values()))

    def scored(model: Any, epoch: int) -> dict[str, float]:
        """The mean of every metric over the sets, and then each of them, such as `micro_f1 de`."""
        found = {name: one(model, epoch) for name, one in several.items()}
        metrics = list(next(iter(found.values())))
        means = {
            metric: float(np.mean([scores[metric] for scores in found.values()]))
            for metric in metrics
        }
        return means | {
            f"{metric} {name}": scores[metric]
            for metric in metrics
            for name, scores in found.items()
        }

    return scored


def _on_one(
    dev: Encoded, tokenizer: Any, bleu_every: int | None
) -> Callable[[Any, int], Mapping[str, float]]:
    from .evaluation import evaluate

    if dev.data.task.traits.label_unit == "text":
        return on_pairs(dev, tokenizer, bleu_every)
    return lambda model, epoch: next(iter(evaluate(model, {dev.data.lang: dev}).values()))
