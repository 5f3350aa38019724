"""Report: sizes, speed, layers and notes of the smaller model."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from deadhead.heads.discover import find_every_site, layout_of
from deadhead.layout import HeadLayout, SiteKey
from deadhead.rankers.label_free import Loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen
from deadhead.shrinking.latency import time_models
from deadhead.shrinking.refitting import RefitPlan
from deadhead.shrinking.shrunk import STAGES, Shrunk, ShrunkLayer, Speed, group_notes, speed_notes

from .calibration import Calibration
from .choice import CutModel
from .evidence import Evidence
from .repair import PlannedRepair, RepairedModel
from .stopwatch import Stopwatch

ROUNDING = 1e-6  # relative to a loss


def report(
    calibration: Calibration,
    evidence: Evidence,
    planned: PlannedRepair,
    repaired: RepairedModel,
    watch: Stopwatch,
) -> Shrunk:
    """Time both models if that matters, and report all that is known."""
    request, cut, plan = calibration.request, planned.cut, planned.plan
    stages = dict(zip(STAGES, (evidence.full, repaired.cut, repaired.repaired), strict=True))
    notes = [
        *group_notes(calibration.layout, cut.choice.heads, evidence.budgets),
        *plan.report.notes,
    ]
    risen = repaired.repaired.loss > repaired.cut.loss * (1 + ROUNDING)
    if risen and (plan.solutions or plan.task_layer is not None):
        notes.append(
            "the repair raised the held-out loss: give more calibration data, or choose the "
            "repair none"
        )
    full = repaired.full
    speed = None if full is None else _speed(calibration, cut, full, watch)
    sizes = _sizes(calibration, cut.removed)
    return Shrunk(
        model=calibration.model,
        choice=cut.choice,
        loss=_name(calibration.loss),
        losses={name: measurement.loss for name, measurement in stages.items()},
        tried=planned.tried,
        scores={} if request.score is None else {name: m.score for name, m in stages.items()},
        sizes=sizes,
        shape=calibration.costs.shape,
        seconds=watch.seconds,
        speed=speed,
        layers=_layers(calibration, plan),
        examples=(_examples(calibration.fit), _examples(calibration.held_out)),
        notes=(*notes, *speed_notes(request.targets, sizes)),
    )


def _speed(calibration: Calibration, cut: CutModel, full: nn.Module, watch: Stopwatch) -> Speed:
    model, seed = calibration.model, calibration.request.seed
    assert cut.speed is not None  # or there were no copy to time
    with watch.stage("time models"), frozen(model, seed), frozen(full, seed):
        seconds = time_models([full, model], calibration.fit[0], calibration.costs.shape)
    before, after = seconds
    return Speed(
        shape=calibration.costs.shape,
        target=float(calibration.request.targets["speedup"]),
        predicted=cut.speed,
        measured=before / after,
        seconds=(before, after),
    )


def _sizes(calibration: Calibration, removed: Mapping[SiteKey, int]) -> dict[str, tuple[int, int]]:
    model, costs, before = calibration.model, calibration.costs, calibration.layout
    after = layout_of(find_every_site(model))
    return {
        "heads": (len(before), len(after)),
        "neurons": (_neurons(before), _neurons(after)),
        "parameters": (costs.model_parameters, sum(p.numel() for p in model.parameters())),
        "macs": (int(costs.of(costs.macs)), int(costs.of(costs.macs, removed))),
    }


def _layers(calibration: Calibration, plan: RefitPlan) -> tuple[ShrunkLayer, ...]:
    """A row for each layer that lost units or was refitted, and for the task layer."""
    refits = {(r.kind, r.block, r.layer): r for r in plan.report.layers}
    after = {site.key: len(site.kept) for site in find_every_site(calibration.model)}
    rows = []
    for site in calibration.sites:
        before, row = len(site.kept), refits.get(site.key)
        if after[site.key] == before and row is None:
            continue
        rows.append(
            ShrunkLayer(
                kind=site.kind,
                block=site.block,
                layer=site.layer,
                before=before,
                left=after[site.key],
                candidate="nothing" if row is None else row.candidate,
                errors=None if row is None else (row.error_cut, row.error_refitted),
            )
        )
    if (task := plan.task_layer) is not None:
        outputs = len(task.weight)
        rows.append(
            ShrunkLayer(
                kind="outputs",
                block=task.cut.site.block,
                layer=0,
                before=outputs,
                left=outputs,
                candidate=task.name,
                errors=(task.error_cut, task.error_refitted),
            )
        )
    return tuple(rows)


def _examples(batches: Any) -> int:
    return sum(map(examples_of, batches))


def _neurons(layout: HeadLayout) -> int:
    return sum(len(layer.kept) for layer in layout.feed_forwards)


def _name(loss: Loss | str | None) -> str:
    if loss is None or isinstance(loss, str):
        return loss or "labels"
    return getattr(loss, "__name__", type(loss).__name__)
