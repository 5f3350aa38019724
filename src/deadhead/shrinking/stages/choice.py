"""Choice: the units to remove by the method, or by each that "auto" tries, and what that saves."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from deadhead.heads.gates import gated
from deadhead.heads.layers import checkpointed, copy_with_same_weights
from deadhead.heads.prune import prune
from deadhead.layout import SiteKey
from deadhead.shrinking.allocate import Budget
from deadhead.shrinking.budgets import check_reach, most
from deadhead.shrinking.choose import AUTO, CHOOSERS, Choice, choose_by_each
from deadhead.shrinking.latency import time_models

from .calibration import Calibration, LossAndScore
from .evidence import Evidence
from .stopwatch import Stopwatch

CLOSE = 0.05  # share of the time: a first prediction that misses by more is corrected once


@dataclass(frozen=True, kw_only=True)
class CutModel:
    """The model without the units of a choice; they are still in it."""

    choice: Choice
    removed: Mapping[SiteKey, int]  # units that each layer loses
    speed: float | None  # predicted; None without a table of times

    def measure(self, calibration: Calibration, watch: Stopwatch) -> LossAndScore:
        """Measure with the units closed by gates."""
        with gated(calibration.model, closed=self.choice.heads, neurons=self.choice.neurons):
            return calibration.measure(watch)


def choose_units(
    calibration: Calibration, evidence: Evidence, watch: Stopwatch
) -> Sequence[CutModel]:
    """Choose by each method, from one pass over the data; the model comes back as it was."""
    request = calibration.request
    methods = [request.method]
    if request.method == "auto":  # XLNet's projections are no modules, which one of them needs
        modules = all(site.out is not None for site in calibration.sites)
        methods = [name for name in AUTO if modules or not CHOOSERS[name].needs_moments]
    factors: dict[str, float] = {}  # method -> the time saved, relative to the prediction

    def corrected(choice: Choice) -> list[Budget] | None:
        factor = _factor(calibration, evidence, choice)
        if factor is None:
            return None
        factors[choice.name] = factor
        return [_corrected(calibration, evidence.budgets[0], factor)]

    checkpoints = checkpointed(calibration.model) if request.checkpointing else nullcontext()
    with watch.stage("choose") as progress, checkpoints:
        choices = choose_by_each(
            calibration.model,
            calibration.fit,
            methods,
            budgets=evidence.budgets,
            adjust=corrected if evidence.table is not None else None,
            loss=calibration.loss,
            seed=request.seed,
            progress=progress,
        )
    cuts = []
    for choice in choices:
        removed, speed = calibration.removed_by(choice), None
        if evidence.table is not None:
            speed = evidence.speed_without(removed, factors.get(choice.name, 1.0))
        cuts.append(CutModel(choice=choice, removed=removed, speed=speed))
    return cuts


def _factor(calibration: Calibration, evidence: Evidence, choice: Choice) -> float | None:
    """Time a cut copy; None if the prediction is close. The model is in evaluation mode."""
    model, shape = calibration.model, calibration.costs.shape
    small = prune(copy_with_same_weights(model), choice.heads, neurons=choice.neurons)
    full, seconds = time_models([model, small], calibration.fit[0], shape)
    measured = seconds / full
    predicted = 1 / evidence.speed_without(calibration.removed_by(choice))
    if abs(measured - predicted) <= CLOSE * predicted:
        return None
    return (1 - measured) / (1 - predicted)


def _corrected(calibration: Calibration, budget: Budget, factor: float) -> Budget:
    """The budget of the time that must be saved by a table that is wrong by this factor."""
    least = 1 - max(0.0, factor) * most(budget) / budget.whole
    check_reach("speedup", calibration.request.targets["speedup"], least, calibration.costs.shape)
    return replace(budget, total=budget.total / factor)
