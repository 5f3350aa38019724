"""Methods that score units instead of predicting rises of the loss, for comparison."""

from deadhead.layout import Head, Kind

from .allocate import Curve
from .chooser import Chooser, Evidence, curve_of


class Gradient(Chooser):
    """The heads that the ranker of the same name scores lowest."""

    help = "lowest by the ranker gradient"
    kinds = ("heads",)
    predicts = False
    uses_statistics = False
    ranker = "gradient"

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        from deadhead.rankers import rank

        ranking = rank(
            evidence.model, evidence.batches, self.ranker, loss=evidence.loss, seed=evidence.seed,
            progress=evidence.progress,
        )  # fmt: skip
        curves = []
        for place, units in evidence.of(kind).items():
            _, block, layer = place
            heads = [[Head(block, layer, number) for number in unit] for unit in units]
            scores = [sum(ranking[head] for head in unit) / len(unit) for unit in heads]
            curves.append(curve_of(place, units, scores))
        return curves


class Taylor(Gradient):
    """The heads that the ranker of the same name scores lowest."""

    help = "lowest by the ranker taylor"
    ranker = "taylor"


class Random(Chooser):
    """Units drawn by the seed, all as likely as each other: the control of every comparison."""

    help = "drawn at random by the seed"
    reads = "nothing"
    predicts = False
    uses_statistics = False

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        from deadhead.strategies.draws import rng_for

        curves = []
        for place, units in evidence.of(kind).items():
            draw = rng_for(evidence.seed, "shrink", *place)
            curves.append(curve_of(place, units, [draw.random() for _ in units]))
        return curves
