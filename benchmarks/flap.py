"""FLAP (An et al. 2024), the method of choosing that the benchmarks compare."""

from __future__ import annotations

from typing import ClassVar, Literal

from deadhead.layout import Kind
from deadhead.shrinking import Chooser, Curve
from deadhead.shrinking.chooser import Evidence, curve_of


class Flap(Chooser):
    """How much a unit's output fluctuates, compared with its layer."""

    help = "FLAP: the variance of what a unit gives times its squared weights, by layer"
    reads: ClassVar[Literal["labels or a loss", "inputs", "nothing"]] = "inputs"
    predicts = False

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        scores = {}
        for place in evidence.of(kind):
            layer = evidence.statistics.places[place]
            mean = layer.columns / layer.rows
            variance = (layer.squares / layer.rows - mean.square()).clamp(min=0)
            fluctuation = variance * layer.weight.to(variance).square().sum(0)
            spread = fluctuation.std().clamp(min=1e-300) if len(fluctuation) > 1 else 1.0
            standard = (fluctuation - fluctuation.mean()) / spread
            scores[place] = standard.unflatten(0, (-1, layer.width)).mean(1).tolist()
        # below 0 for units under the mean of their layer, and the sums of a curve never fall
        least = min(min(values) for values in scores.values())
        return [
            curve_of(place, evidence.places[place], [value - least for value in values])
            for place, values in scores.items()
        ]
