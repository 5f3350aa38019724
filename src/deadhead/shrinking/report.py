"""The report of `shrink`: sizes, speed, layers and notes of the smaller model."""

from collections.abc import Mapping, Sequence
from typing import Any

from deadhead.heads.discover import find_every_site, layout_of
from deadhead.layout import Batch, HeadLayout
from deadhead.rankers.embedding_loss import EmbeddingChange, EmbeddingLoss
from deadhead.rankers.label_free import Loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen

from .calibration import Calibration
from .choose import Choice
from .distances import TextDistance
from .layers import LayersPlan
from .mixture import Mixer, Mixture
from .refitting import LayerRefit, RefitPlan
from .shrunk import Shrunk, ShrunkLayer, Speed, group_notes, ordinary_note, quota_notes, speed_notes
from .target import kinds_of

ROUNDING = 1e-6  # relative to a loss


def report(
    mixer: Mixer,
    mixture: Mixture,
    plan: RefitPlan,
    *,
    measured: Mapping[str, tuple[float, Any]],
    speed: Speed | None,
    distances: tuple[TextDistance, ...],
    fields: Mapping[str, int] | None = None,
) -> Shrunk:
    """Report all that is known of the smaller model.

    measured: stage -> the loss and the score then.
    fields: of the config, with the new sizes of an even model; empty if it has none for them.
    """
    calibration, choice, layers = mixture.calibration, mixture.choice, mixture.layers
    notes = [*mixer.notes, *(() if layers is None else layers.notes)]
    notes += [*group_notes(calibration.layout, choice.heads, mixture.budgets), *plan.report.notes]
    notes += quota_notes(choice, mixture.budgets)
    if mixture.budgets and not choice.method:
        notes.append("all heads and neurons stay: what else was removed meets the target")
    notes += [
        f"all {kind} stay: their layers have fewer than the multiple"
        for kind in {site.kind: None for site in calibration.sites if site.kept}
        if kind in kinds_of(calibration.targets) and kind not in calibration.kinds
    ]
    if fields is not None:
        notes.append(ordinary_note(type(calibration.model).__name__, fields))
    losses = {name: loss for name, (loss, _) in measured.items()}
    risen = losses["refitted"] > losses["cut"] * (1 + ROUNDING)
    repaired = plan.solutions or plan.task_layer is not None or (layers is not None and layers.rows)
    if risen and repaired:
        notes.append(
            "the repair raised the held-out loss: give more calibration data, or choose the "
            "repair none"
        )
    sizes, loss = _sizes(mixer, calibration, choice), calibration.loss
    if layers is not None:
        count = len(layers.depth.layers)
        sizes = {"layers": (count, count - len(layers.state.removed)), **sizes}
    fitted = _count(calibration.guard[0])
    has_score = calibration.score is not None
    return Shrunk(
        model=calibration.model,
        choice=choice,
        loss="labels" if loss is None else _name(loss),
        embeddings=_embeddings(calibration),
        removed_layers=() if layers is None else layers.names,
        losses=losses,
        tried=mixture.tried,
        tried_layers=mixer.tried,
        scores={name: score for name, (_, score) in measured.items() if has_score},
        sizes=sizes,
        shape=calibration.costs.shape,
        seconds=calibration.seconds,
        speed=speed,
        layers=(*_refitted(mixer.whole, layers), *_layers(calibration, plan)),
        examples=(_count(calibration.repair) - fitted, _count(calibration.held_out)),
        guard=(fitted, _count(calibration.guard[1])),
        distances=distances,
        notes=(*notes, *speed_notes(calibration.targets, sizes)),
    )


def speed_of(mixer: Mixer, mixture: Mixture, *, timed: bool) -> Speed | None:
    """The speed-up for a target `speedup`; timed: measure it, beside the full model."""
    if mixer.table is None:
        return None
    with mixture.calibration.stage("time models"):
        seconds = mixer.times(mixer.whole.model) if timed else None
    return Speed(
        shape=mixture.calibration.costs.shape,
        target=float(mixture.calibration.targets["speedup"]),
        predicted=mixer.full.seconds / mixture.seconds,
        seconds=seconds,
    )


def _count(batches: Sequence[Batch]) -> int:
    return sum(map(examples_of, batches))


def _name(loss: Loss) -> str:
    return str(getattr(loss, "name", getattr(loss, "__name__", type(loss).__name__)))


def _embeddings(calibration: Calibration) -> EmbeddingChange | None:
    """What became of the embeddings of a sentence encoder."""
    if not isinstance(calibration.loss, EmbeddingLoss):
        return None
    with frozen(calibration.model, calibration.seed):
        return calibration.loss.change(calibration.model, calibration.held_out)


def _sizes(mixer: Mixer, calibration: Calibration, choice: Choice) -> dict[str, tuple[int, int]]:
    model, costs, before = calibration.model, calibration.costs, mixer.whole.layout
    after = layout_of(find_every_site(model))
    macs = mixer.full.macs, costs.of(costs.macs, calibration.removed_by(choice))
    return {
        "heads": (len(before), len(after)),
        "neurons": (_neurons(before), _neurons(after)),
        "parameters": (mixer.full.parameters, sum(p.numel() for p in model.parameters())),
        "macs": (int(macs[0]), int(macs[1])),
    }


def _neurons(layout: HeadLayout) -> int:
    return sum(len(layer.kept) for layer in layout.feed_forwards)


def _refitted(whole: Calibration, layers: LayersPlan | None) -> tuple[ShrunkLayer, ...]:
    """A row for each projection that was refitted because layers were removed."""
    sizes: dict[tuple[str, str, int], int] = {s.key: len(s.kept) for s in whole.sites}
    rows = () if layers is None else layers.rows
    return tuple(
        ShrunkLayer(
            kind=refit.kind,
            block=refit.block,
            layer=refit.layer,
            before=sizes[refit.kind, refit.block, refit.layer],
            left=sizes[refit.kind, refit.block, refit.layer],
            candidate=refit.candidate,
            errors=(refit.error_cut, refit.error_refitted),
        )
        for refit in rows
    )


def _layers(calibration: Calibration, plan: RefitPlan) -> tuple[ShrunkLayer, ...]:
    """A row for each layer that lost units or was refitted, and for the task layer."""
    refits = {(r.kind, r.block, r.layer): r for r in plan.report.layers}
    after = {site.key: len(site.kept) for site in find_every_site(calibration.model)}
    rows: list[tuple[str, str, int, int, int, LayerRefit | None]] = [
        (*site.key, len(site.kept), after[site.key], refits.get(site.key))
        for site in calibration.sites
    ]
    if (task := plan.task_layer) is not None:
        outputs, site = len(task.weight), task.cut.site
        rows.append(("outputs", site.block, 0, outputs, outputs, refits[site.key]))
    return tuple(
        ShrunkLayer(
            kind=kind,
            block=block,
            layer=layer,
            before=before,
            left=left,
            candidate="nothing" if refit is None else refit.candidate,
            errors=None if refit is None else (refit.error_cut, refit.error_refitted),
        )
        for kind, block, layer, before, left, refit in rows
        if left < before or refit is not None
    )
