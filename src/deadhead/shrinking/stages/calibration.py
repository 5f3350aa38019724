"""Calibration: check the model and the data, hold out examples, and count what layers cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.heads.hooks import is_gated
from deadhead.heads.prune import unfit
from deadhead.heads.site import Site
from deadhead.layout import HeadLayout, Kind, SiteKey
from deadhead.rankers.label_free import Loss, with_loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen
from deadhead.shrinking.allocate import units_of
from deadhead.shrinking.budgets import check_targets
from deadhead.shrinking.choose import Choice, check_method, checked_batches
from deadhead.shrinking.costs import Costs, InputShape, costs
from deadhead.shrinking.held_out import Batch, check_number, mean_loss, split_examples
from deadhead.shrinking.repairs import Repair
from deadhead.shrinking.target import Amount

from .stopwatch import Stopwatch


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `shrink`, read and checked."""

    targets: Mapping[str, Amount]
    on: InputShape | None
    method: str
    repair: Repair
    loss: Loss | str | None
    held_out: float
    seed: int
    score: Callable[[nn.Module], Any] | None
    checkpointing: bool


@dataclass(frozen=True, kw_only=True)
class LossAndScore:
    """The held-out loss of a model, and what `score` gives for it."""

    loss: float
    score: Any


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The model, its layers, and the data to fit and to measure on."""

    request: Request
    model: nn.Module
    sites: Sequence[Site]
    layout: HeadLayout  # of the full model
    kinds: Sequence[Kind]  # that may be removed
    costs: Costs
    fit: Sequence[Batch]
    held_out: Sequence[Batch]  # losses are measured on them
    loss: Loss | str | None  # "self" where there are no labels to measure by

    def removed_by(self, choice: Choice) -> dict[SiteKey, int]:
        """Count the units that each layer loses."""
        after = units_of(self.layout.without(choice.heads, choice.neurons))
        return {
            place: len(units) - len(after.get(place, ()))
            for place, units in units_of(self.layout).items()
        }

    def measure(self, watch: Stopwatch) -> LossAndScore:
        """Measure the model as it is now."""
        score = self.request.score
        with watch.stage("measure"):
            with frozen(self.model, self.request.seed):
                loss = mean_loss(self.model, self.held_out)
            return LossAndScore(loss=loss, score=None if score is None else score(self.model))


def calibrate(
    model: nn.Module, batches: Iterable[Batch], request: Request, watch: Stopwatch
) -> Calibration:
    """Check everything before the first long computation, and divide the examples."""
    if (problem := unfit(model)) is not None:
        raise problem
    if is_gated(model):
        raise UnsupportedModel(
            "expected a model without gates, got one inside a `with gated(...)` block.",
            "shrink after the block",
        )
    sites, loss, seed = find_every_site(model), request.loss, request.seed
    kinds, shape = check_targets(model, request.targets, request.on)
    needs_labels = check_method(request.method, kinds, loss)
    with watch.stage("count"), frozen(model, seed):
        checked = checked_batches(model, batches, labels=needs_labels)
        check_number(sum(map(examples_of, checked)))
        fit, held_out = split_examples(checked, request.held_out)
        counted = costs(model, sites, checked[0], shape)
        if loss is None and not all("labels" in batch for batch in held_out):
            loss = "self"
        if loss is not None:
            held_out = with_loss(model, held_out, loss, False, seed)
    return Calibration(
        request=request,
        model=model,
        sites=sites,
        layout=layout_of(sites),
        kinds=kinds,
        costs=counted,
        fit=fit,
        held_out=held_out,
        loss=loss,
    )
