"""Choose units: a method predicts the cost of each, a budget decides how many each layer loses.

`CHOOSERS` has the class of every method. Nothing here changes the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from deadhead.display.progress import Progress, reported
from deadhead.errors import DeadheadError, unknown_name
from deadhead.layout import Batch, Head, Kind, LayerKey, SiteKey
from deadhead.registry import Registry

from .allocate import Budget, Curve, UnitIndices, units_of
from .chooser import Chooser, Evidence

if TYPE_CHECKING:
    from torch import nn

    from deadhead.heads.site import Site
    from deadhead.rankers.label_free import Loss

    from .statistics import Statistics

CHOOSERS: Registry[type[Chooser]] = Registry(
    "method of choosing",
    __package__,
    {
        "reconstruction": "methods:Reconstruction",
        "fisher": "methods:Fisher",
        "kwon": "methods:Kwon",
        "gradient": "scores:Gradient",
        "taylor": "scores:Taylor",
        "random": "scores:Random",
    },
)
# What "auto" tries. After a refit, the first is best on taggers and language models, the second on
# some classifiers, so `shrink` tries both; `choose` alone uses the first.
AUTO = ("reconstruction", "fisher")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The units to remove.

    heads, neurons: as `prune` takes them.
    predicted: the rise of the loss that the method expects before any refit; None where it
        predicts none.
    method: by kind, such as {"heads": "reconstruction"}.
    teacher: the choice of the same method that keeps the square root of the share, which Kwon et
        al. fit their scales to; None where they are fitted to the whole model.
    """

    heads: tuple[Head, ...]
    neurons: dict[LayerKey, tuple[int, ...]]
    predicted: float | None
    method: dict[Kind, str]
    teacher: Choice | None = None

    @property
    def name(self) -> str:
        """The methods that chose, as one text."""
        return " and ".join(dict.fromkeys(self.method.values()))


def method_names() -> tuple[str, ...]:
    """Return what `method` accepts: "auto" and the names of CHOOSERS."""
    return "auto", *CHOOSERS


def checked_batches(model: nn.Module, batches: Iterable[Batch], *, labels: bool) -> Sequence[Batch]:
    """`check_batches` with an error that names the methods of this package."""
    from deadhead.rankers.batches import check_batches

    names = [name for name, method in CHOOSERS.items() if method.reads != "labels or a loss"]
    return check_batches(model, batches, labels=labels, label_free=names)


def check_method(method: str, kinds: Iterable[Kind], loss: Loss | str | None = None) -> bool:
    """Raise an error unless the method can choose these kinds; whether it then needs labels."""
    choosers = _choosers(method, kinds)
    if isinstance(loss, str) and loss != "self":
        raise unknown_name("loss", loss, ("self",))
    if loss is not None and loss != "self" and not callable(loss):
        hint = 'give loss="self", or a function of (outputs, batch)'
        raise DeadheadError(f'`loss` expects "self" or a function, got {loss!r}.', hint)
    return loss is None and any(c.reads == "labels or a loss" for c in choosers.values())


def choose(
    model: nn.Module,
    batches: Iterable[Batch],
    method: str = "auto",
    *,
    budgets: Sequence[Budget],
    adjust: Callable[[Choice], Sequence[Budget] | None] | None = None,
    loss: Loss | str | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Choice:
    """Choose the heads and neurons to remove. The model comes back as it was.

    Args:
        batches: dicts ready for `model(**batch)`, with `labels` unless there is a loss.
        method: a name of CHOOSERS, or "auto": the best known.
        budgets: what to save, each of places of its own; a place in none of them loses nothing.
        adjust: called with the choice; the budgets that it returns, if any, are used instead, with
            the same curves.
        loss: as for `rank`: "self" or a function, where there are no labels.
        seed: of `random`, and of the directions in which loss="self" measures.

    >>> layout = discover(model)
    >>> choice = choose(model, batches, budgets=[removal(layout, "heads", 72)])
    >>> prune(model, choice.heads)
    """
    method = AUTO[0] if method == "auto" else method
    return choose_by_each(
        model, batches, [method], budgets=budgets, adjust=adjust, loss=loss, seed=seed,
        progress=progress,
    )[0]  # fmt: skip


def choose_by_each(
    model: nn.Module,
    batches: Iterable[Batch],
    methods: Sequence[str],
    *,
    budgets: Sequence[Budget],
    adjust: Callable[[Choice], Sequence[Budget] | None] | None = None,
    loss: Loss | str | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> list[Choice]:
    """The choice of each method, as `choose` makes it, from one pass over the data for all."""
    places = _places_of(budgets)
    kinds = [*dict.fromkeys(place[0] for place in places)]
    by_method = [_choosers(method, kinds) for method in methods]
    users = [chooser for choosers in by_method for chooser in choosers.values()]
    needs_labels = any(check_method(method, kinds, loss) for method in methods)
    from deadhead.rankers.run import frozen, refuse_resampling

    refuse_resampling(model)
    sites, units = _sites_and_units(model, kinds)
    _check_places(budgets, units)
    has_others = any(place[0] == "heads" and place not in places for place in units)
    reads_data = any(chooser.reads != "nothing" for chooser in users)
    with reported(progress, "choose") as count, frozen(model, seed):
        evidence = Evidence(
            model=model,
            places={place: units[place] for place in places},
            batches=checked_batches(model, batches, labels=needs_labels) if reads_data else (),
            loss=loss,
            seed=seed,
            progress=count,
        )
        statistics = _statistics(evidence, [sites[place] for place in places], by_method)
        evidence = replace(evidence, statistics=statistics)
        choices = []
        for choosers in by_method:
            curves = {
                curve.place: curve
                for kind, chooser in choosers.items()
                for curve in chooser.curves(evidence, kind)
            }
            choice = _chosen(choosers, evidence, curves, budgets, has_others)
            better = None if adjust is None else adjust(choice)
            if better is not None:
                _check_places(better, units)
                choice = _chosen(choosers, evidence, curves, better, has_others)
            choices.append(choice)
        return choices


def _sites_and_units(
    model: nn.Module, kinds: Collection[Kind]
) -> tuple[dict[SiteKey, Site], dict[SiteKey, tuple[UnitIndices, ...]]]:
    """The layers of these kinds by place, and the units they have left."""
    from deadhead.heads.discover import find_every_site, layout_of

    sites = [s for s in find_every_site(model, *kinds) if s.kind in kinds]
    return {site.place: site for site in sites}, units_of(layout_of(sites))


def _statistics(
    evidence: Evidence, sites: Sequence[Site], by_method: Iterable[Mapping[Kind, Chooser]]
) -> Statistics | None:
    """Collect the statistics that the methods need, in one pass over the data."""
    users = [
        (kind, chooser)
        for choosers in by_method
        for kind, chooser in choosers.items()
        if chooser.uses_statistics
    ]
    if not users:
        return None
    from deadhead.rankers.label_free import with_loss

    from .moments import collect_with_orders

    model, batches = evidence.model, evidence.batches
    gradients = any(chooser.reads == "labels or a loss" for _, chooser in users)
    if gradients and evidence.loss is not None:
        batches = with_loss(model, batches, evidence.loss, True, evidence.seed)
    return collect_with_orders(
        model,
        sites,
        batches,
        kinds={kind for kind, chooser in users if chooser.needs_moments},
        gradients=gradients,
        by_batch=any(chooser.needs_batches for _, chooser in users),
        progress=evidence.progress,
    )


def _choosers(method: str, kinds: Iterable[Kind]) -> dict[Kind, Chooser]:
    """The method of each kind."""
    if method not in method_names():
        raise unknown_name("method of choosing", method, method_names())
    name = AUTO[0] if method == "auto" else method
    kinds = [*kinds]
    for kind in kinds:
        if kind not in CHOOSERS[name].kinds:
            others = [other for other in CHOOSERS if kind in CHOOSERS[other].kinds]
            hint = f"use one of {', '.join(others)}"
            raise DeadheadError(f"{name} chooses no {kind}.", hint)
    return {kind: CHOOSERS[name]() for kind in kinds}


def _places_of(budgets: Sequence[Budget]) -> list[SiteKey]:
    places = [place for budget in budgets for place in budget.saving]
    if not places:
        raise DeadheadError("there is no budget, or it names no layer.", "give heads= or neurons=")
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice:
        kind, block, layer = twice
        raise DeadheadError(
            f"two budgets name the {kind} of {block} layer {layer}.", "give one budget for them"
        )
    return places


def _check_places(
    budgets: Sequence[Budget], units: Mapping[SiteKey, tuple[UnitIndices, ...]]
) -> None:
    """Raise an error unless the budgets fit the model and can be met."""
    for budget in budgets:
        for place, table in budget.saving.items():
            left = len(units.get(place, ()))
            if len(table) != left + 1:
                kind, block, layer = place
                raise DeadheadError(
                    f"the budget of {kind} in {block} layer {layer} expects {left + 1} numbers, "
                    f"for 0 to {left} units, got {len(table)}.",
                    "make the budget for this model",
                )
        budget.check()


def _chosen(
    choosers: Mapping[Kind, Chooser],
    evidence: Evidence,
    curves: Mapping[SiteKey, Curve],
    budgets: Sequence[Budget],
    has_others: bool,
) -> Choice:
    """The choice of a method. has_others: the model has heads that no budget names."""
    removed, predicted = _removed(choosers, evidence, curves, budgets)
    if not has_others and _is_every_head(evidence, removed):  # `prune` refuses that
        results = [
            _removed(choosers, evidence, curves, budgets, spared=place)
            for place in _places_to_spare(evidence, budgets)
        ]
        removed, predicted = min(results, key=lambda result: result[1])
    choice = _choice(choosers, removed, predicted)
    if any(chooser.has_teacher for chooser in choosers.values()):
        choice = replace(choice, teacher=_teacher(choosers, curves, budgets))
    return choice


def _choice(
    choosers: Mapping[Kind, Chooser],
    removed: Mapping[SiteKey, tuple[UnitIndices, ...]],
    predicted: float,
) -> Choice:
    neurons = {
        (block, layer): tuple(sorted(number for unit in units for number in unit))
        for (kind, block, layer), units in removed.items()
        if kind == "neurons" and units
    }
    heads = (
        Head(block, layer, number)
        for (kind, block, layer), units in removed.items()
        if kind == "heads"
        for unit in units
        for number in unit
    )
    return Choice(
        heads=tuple(sorted(heads)),
        neurons=neurons,
        predicted=predicted if all(c.predicts for c in choosers.values()) else None,
        method={kind: _name(chooser) for kind, chooser in choosers.items()},
    )


def _teacher(
    choosers: Mapping[Kind, Chooser], curves: Mapping[SiteKey, Curve], budgets: Sequence[Budget]
) -> Choice:
    """Choose so that the square root of the share remains, by the curves alone."""
    removed: dict[SiteKey, tuple[UnitIndices, ...]] = {}
    cost = 0.0
    for budget in budgets:
        own = [curves[place] for place in budget.saving]
        left = sqrt(budget.whole * (budget.whole - budget.total))
        counts = choosers[own[0].kind].allocated(own, budget.saving, budget.whole - left)
        removed |= {curve.place: curve.units[: counts[curve.place]] for curve in own}
        cost += sum((0.0, *curve.costs)[counts[curve.place]] for curve in own)
    return _choice(choosers, removed, cost)


def _removed(
    choosers: Mapping[Kind, Chooser],
    evidence: Evidence,
    curves: Mapping[SiteKey, Curve],
    budgets: Sequence[Budget],
    spared: SiteKey | None = None,
) -> tuple[dict[SiteKey, tuple[UnitIndices, ...]], float]:
    """The units to remove, and what that costs. spared: a layer that keeps at least one unit."""
    removed: dict[SiteKey, tuple[UnitIndices, ...]] = {}
    total = 0.0
    for budget in budgets:
        own = [_without_last(curves[p]) if p == spared else curves[p] for p in budget.saving]
        saving = {c.place: budget.saving[c.place][: len(c.units) + 1] for c in own}
        counts = choosers[own[0].kind].allocated(own, saving, budget.total)
        for kind, chooser in choosers.items():
            some = {c.place: c.units[: counts[c.place]] for c in own if c.kind == kind}
            cost = sum(([0.0, *c.costs][counts[c.place]] for c in own if c.kind == kind), 0.0)
            better, better_cost = chooser.improved(evidence, some, budget)
            if _is_every_head(evidence, better) and not _is_every_head(evidence, some):
                better, better_cost = some, None
            removed |= better
            total += cost if better_cost is None else better_cost
    return removed, total


def _is_every_head(evidence: Evidence, removed: Mapping[SiteKey, tuple[UnitIndices, ...]]) -> bool:
    heads = evidence.of("heads")
    return bool(heads) and all(len(removed.get(p, ())) == len(heads[p]) for p in heads)


def _places_to_spare(evidence: Evidence, budgets: Sequence[Budget]) -> list[SiteKey]:
    """The layers that can keep one head, or group of heads, while the budgets are met."""
    places = [
        place
        for place in evidence.of("heads")
        for budget in budgets
        if place in budget.saving
        and replace(budget, saving={**budget.saving, place: budget.saving[place][:-1]}).is_possible
    ]
    if not places:
        raise DeadheadError(
            "the budget can only be met without any head, which no model can be.",
            "leave more: at least one head, or group of heads, must stay",
        )
    return places


def _without_last(curve: Curve) -> Curve:
    return replace(curve, units=curve.units[:-1], costs=curve.costs[:-1])


def _name(chooser: Chooser) -> str:
    return next(name for name, kind in CHOOSERS.items() if kind is type(chooser))
