"""The parts of a model that were removed, and what each saves."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from deadhead.heads import prune
from deadhead.heads.depth import remove_layers
from deadhead.heads.layers import copy_with_same_weights
from deadhead.layout import Batch
from deadhead.numerics import computing
from deadhead.shrinking import Shrunk
from deadhead.shrinking.costs import megabytes
from deadhead.shrinking.latency import time_models


@dataclass(frozen=True, kw_only=True)
class Part:
    """One kind of part, and what is saved by removing some of it after those before it."""

    name: str  # vocabulary, layers, heads or neurons
    parameters: int
    megabytes: float
    milliseconds: float  # of a run on inputs of the shape of the report


def timed_parts(
    full: nn.Module,
    trimmed: nn.Module | None,
    report: Shrunk,
    batch: Batch,
    *,
    precision: Any,
    limit: float,
) -> tuple[tuple[float, float], tuple[Part, ...]]:
    """The seconds of a run of the full and of the small model, and what each part saves.

    All models, from the full one on with one more kind of part removed each, run in turns.

    trimmed: the full model without the tokens that were removed; None if all are there.
    precision: of the weights as they are saved. limit: the seconds that all takes, roughly.
    """
    names, models = ["full"], [full]
    if trimmed is not None:
        names, models = [*names, "vocabulary"], [*models, trimmed]
    if report.removed_layers:
        less = remove_layers(copy_with_same_weights(models[-1]), report.removed_layers)
        names, models = [*names, "layers"], [*models, less]
    if report.choice.heads:
        less = prune(copy_with_same_weights(models[-1]), report.choice.heads)
        names, models = [*names, "heads"], [*models, less]
    if report.choice.neurons:
        names, models = [*names, "neurons"], [*models, report.model]
    models[-1] = report.model  # with what the repair added
    with computing(full):
        seconds = time_models([m.eval() for m in models], batch, report.shape, limit=limit)
    sizes = [
        (sum(weight.numel() for weight in model.parameters()), megabytes(model, precision))
        for model in models
    ]
    parts = tuple(
        Part(
            name=names[n],
            parameters=sizes[n - 1][0] - sizes[n][0],
            megabytes=round(sizes[n - 1][1] - sizes[n][1], 3),
            milliseconds=1e3 * (seconds[n - 1] - seconds[n]),
        )
        for n in range(1, len(models))
    )
    return (seconds[0], seconds[-1]), parts
