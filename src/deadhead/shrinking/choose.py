"""Choose units: a method predicts the cost of each, a budget decides how many each layer loses.

`CHOOSERS` has the class of every method. Nothing here changes the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from deadhead.display.progress import Progress, reported
from deadhead.errors import DeadheadError, unknown_name
from deadhead.layout import Batch, Head, Kind, LayerKey, SiteKey
from deadhead.registry import Registry

from .allocate import Budget, Curve, UnitIndices, by_quotas, units_of
from .chooser import Chooser, Chosen, Evidence
from .target import KINDS

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
PROBES = 1000  # for all examples together, where the loss needs no labels


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
    name = _name_of(method, kinds)
    if loss is not None:
        from deadhead.rankers.label_free import check_loss

        check_loss(loss)
    return loss is None and CHOOSERS[name].reads == "labels or a loss"


def _name_of(method: str, kinds: Iterable[Kind]) -> str:
    """The name in CHOOSERS of a method that can choose these kinds."""
    if method not in method_names():
        raise unknown_name("method of choosing", method, method_names())
    name = AUTO[0] if method == "auto" else method
    for kind in kinds:
        if kind not in CHOOSERS[name].kinds:
            others = [other for other in CHOOSERS if kind in CHOOSERS[other].kinds]
            raise DeadheadError(f"{name} chooses no {kind}.", f"use one of {', '.join(others)}")
    return name


def choose(
    model: nn.Module,
    batches: Iterable[Batch],
    method: str = "auto",
    *,
    budgets: Sequence[Budget],
    loss: Loss | str | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Choice:
    """Choose the heads and neurons to remove. The model comes back as it was.

    Args:
        batches: dicts ready for `model(**batch)`, with `labels` unless there is a loss.
        method: a name of CHOOSERS, or "auto": the best known.
        budgets: what to save, each of places of its own; a place in none of them loses nothing.
        loss: as for `rank`: "self" or a function, where there are no labels.
        seed: of `random`, and of the directions in which loss="self" measures.

    >>> layout = discover(model)
    >>> choice = choose(model, batches, budgets=[removal(layout, "heads", 72)])
    >>> prune(model, choice.heads)
    """
    method = AUTO[0] if method == "auto" else method
    return choose_by_each(
        model, batches, [method], budgets=budgets, loss=loss, seed=seed, progress=progress
    )[0]


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
    """The choice of each method, as `choose` makes it, from one pass over the data for all.

    adjust: called with each choice; the budgets that it returns, if any, are used instead, with
        the same curves.
    """
    places = _places_of(budgets)
    kinds = [*dict.fromkeys(place[0] for place in places)]
    names = [_name_of(method, kinds) for method in methods]
    needs_labels = any(check_method(name, kinds, loss) for name in names)
    from deadhead.heads.discover import find_every_site, layout_of
    from deadhead.rankers.run import frozen, refuse_resampling

    refuse_resampling(model)
    sites = {s.key: s for s in find_every_site(model, *kinds) if s.kind in kinds}
    units = units_of(layout_of([*sites.values()]))
    _check_places(budgets, units)
    has_others = any(place[0] == "heads" and place not in places for place in units)
    reads_data = any(CHOOSERS[name].reads != "nothing" for name in names)
    with reported(progress, "choose") as count, frozen(model, seed):
        evidence = Evidence(
            model=model,
            places={place: units[place] for place in places},
            batches=checked_batches(model, batches, labels=needs_labels) if reads_data else (),
            loss=loss,
            seed=seed,
            progress=count,
        )
        statistics = _statistics(evidence, [sites[place] for place in places], names)
        evidence = replace(evidence, statistics=statistics)
        choices = []
        for name in names:
            chooser = CHOOSERS[name]()
            curves = {c.place: c for kind in kinds for c in chooser.curves(evidence, kind)}
            choice = _chosen(name, evidence, curves, budgets, has_others)
            better = None if adjust is None else adjust(choice)
            if better is not None:
                _check_places(better, units)
                choice = _chosen(name, evidence, curves, better, has_others)
            choices.append(choice)
        return choices


def _statistics(
    evidence: Evidence, sites: Sequence[Site], names: Iterable[str]
) -> Statistics | None:
    """Collect the statistics that the methods need, in one pass over the data."""
    users = [CHOOSERS[name] for name in names if CHOOSERS[name].uses_statistics]
    if not users:
        return None
    from deadhead.rankers.label_free import with_loss

    from .statistics import collect_with_orders

    model, batches = evidence.model, evidence.batches
    gradients = any(user.reads == "labels or a loss" for user in users)
    if gradients and evidence.loss is not None:
        batches = with_loss(model, batches, evidence.loss, True, evidence.seed, probes=PROBES)
    return collect_with_orders(
        model,
        sites,
        batches,
        kinds=KINDS if any(user.needs_moments for user in users) else (),
        gradients=gradients,
        by_batch=any(user.needs_batches for user in users),
        progress=evidence.progress,
    )


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
    name: str,
    evidence: Evidence,
    curves: Mapping[SiteKey, Curve],
    budgets: Sequence[Budget],
    has_others: bool,
) -> Choice:
    """The choice of a method. has_others: the model has heads that no budget names."""
    chooser = CHOOSERS[name]()
    removed, predicted = _removed(chooser, evidence, curves, budgets)
    if not has_others and _is_every_head(evidence, removed):  # `prune` refuses that
        results = [
            _removed(chooser, evidence, curves, budgets, spared=place)
            for place in _places_to_spare(evidence, budgets)
        ]
        removed, predicted = min(results, key=lambda result: result[1])
    choice = _choice(name, removed, predicted)
    if chooser.has_teacher:
        choice = replace(choice, teacher=_teacher(name, curves, budgets))
    return choice


def _choice(name: str, removed: Chosen, predicted: float) -> Choice:
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
        predicted=predicted if CHOOSERS[name].predicts else None,
        method=dict.fromkeys((kind for kind, _, _ in removed), name),
    )


def _teacher(name: str, curves: Mapping[SiteKey, Curve], budgets: Sequence[Budget]) -> Choice:
    """Choose so that the square root of the share remains, by the curves alone."""
    removed: Chosen = {}
    cost = 0.0
    for budget in budgets:
        own = [curves[place] for place in budget.saving]
        left = sqrt(budget.whole * (budget.whole - budget.total))
        larger = replace(budget, total=budget.whole - left)
        counts = by_quotas(CHOOSERS[name]().allocated, own, budget.saving, larger)
        removed |= {curve.place: curve.units[: counts[curve.place]] for curve in own}
        cost += sum((0.0, *curve.costs)[counts[curve.place]] for curve in own)
    return _choice(name, removed, cost)


def _removed(
    chooser: Chooser,
    evidence: Evidence,
    curves: Mapping[SiteKey, Curve],
    budgets: Sequence[Budget],
    spared: SiteKey | None = None,
) -> tuple[Chosen, float]:
    """The units to remove, and what that costs. spared: a layer that keeps at least one unit."""
    removed: Chosen = {}
    total = 0.0
    for budget in budgets:
        own = [curves[place] for place in budget.saving]
        own = [
            replace(c, units=c.units[:-1], costs=c.costs[:-1]) if c.place == spared else c
            for c in own
        ]
        saving = {c.place: budget.saving[c.place][: len(c.units) + 1] for c in own}
        counts = by_quotas(chooser.allocated, own, saving, budget)
        for kind in dict.fromkeys(place[0] for place in curves):
            of_kind = [c for c in own if c.place[0] == kind]
            some = {c.place: c.units[: counts[c.place]] for c in of_kind}
            cost = sum((0.0, *c.costs)[counts[c.place]] for c in of_kind)
            better, better_cost = chooser.improved(evidence, some, budget)
            if _is_every_head(evidence, better) and not _is_every_head(evidence, some):
                better, better_cost = some, None
            removed |= better
            total += cost if better_cost is None else better_cost
    return removed, total


def _is_every_head(evidence: Evidence, removed: Chosen) -> bool:
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
