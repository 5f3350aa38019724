"""Repair: solve the repair of each cut, keep the best, and write it into the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from deadhead.heads.layers import copy_with_same_weights
from deadhead.rankers.run import frozen
from deadhead.shrinking.held_out import mean_loss
from deadhead.shrinking.refitting import RefitPlan
from deadhead.shrinking.repairs import REPAIRS, Repair

from .calibration import Calibration, LossAndScore
from .choice import CutModel
from .stopwatch import Stopwatch


@dataclass(frozen=True, kw_only=True)
class PlannedRepair:
    """The best of the cuts with its repair, neither of which is applied yet.

    tried: method -> held-out loss after its repair, if several were tried.
    """

    cut: CutModel
    plan: RefitPlan
    tried: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class RepairedModel:
    """The measurements before and after the repair; the model is smaller now.

    full: a copy of the model before it was cut, to time it; None where no speed was predicted.
    """

    cut: LossAndScore
    repaired: LossAndScore
    full: nn.Module | None


def plan_best(
    calibration: Calibration, cuts: Sequence[CutModel], watch: Stopwatch
) -> PlannedRepair:
    """Solve the repair of each cut, and keep that with the lowest held-out loss."""
    repair = calibration.request.repair
    if len(cuts) == 1:
        return PlannedRepair(cut=cuts[0], plan=_plan(calibration, cuts[0], repair, watch), tried={})
    quick = repair if repair.compare_by is None else REPAIRS[repair.compare_by]
    tried, best, plan = {}, cuts[0], None
    for cut in cuts:
        other = _plan(calibration, cut, quick, watch)
        with (
            watch.stage("measure"),
            other.tried(),
            frozen(calibration.model, calibration.request.seed),
        ):
            loss = mean_loss(calibration.model, calibration.held_out)
        if plan is None or loss < min(tried.values()):
            best, plan = cut, other
        tried[cut.choice.name] = loss
    assert plan is not None
    if quick is not repair:
        plan = _plan(calibration, best, repair, watch)
    return PlannedRepair(cut=best, plan=plan, tried=tried)


def _plan(calibration: Calibration, cut: CutModel, repair: Repair, watch: Stopwatch) -> RefitPlan:
    with watch.stage("refit") as progress:
        return repair.plan(calibration.model, calibration.fit, cut.choice, progress)


def apply_repair(
    calibration: Calibration, planned: PlannedRepair, watch: Stopwatch
) -> RepairedModel:
    """Remove the units and write the new weights, and measure before and after that."""
    before = planned.cut.measure(calibration, watch)
    full = None if planned.cut.speed is None else copy_with_same_weights(calibration.model)
    planned.plan.apply()
    return RepairedModel(cut=before, repaired=calibration.measure(watch), full=full)
