"""The budget of each target, from the costs of the layers."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import ceil, floor

from torch import nn

from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.layout import HeadLayout, Kind, SiteKey

from .allocate import Budget, removal
from .costs import Costs, InputShape, Prices, shape_for
from .latency import Latency
from .repairs import Repair
from .target import KINDS, TYPED, Amount, count_of, kinds_of


def check_targets(
    model: nn.Module, targets: Mapping[str, Amount], on: InputShape | None
) -> tuple[tuple[Kind, ...], InputShape]:
    """The kinds of units that may leave, and the shape of the inputs to count and time.

    Raises an error if the model has none of them, too few, or no positions for the inputs. It
    needs no weights.
    """
    sites = find_every_site(model)
    kinds = kinds_of(targets)
    if not set(kinds) & set(targets):
        kinds = tuple(kind for kind in kinds if any(site.kind == kind for site in sites))
    find_every_site(model, *kinds)  # raises an error with the reason
    for name in KINDS:
        if name in targets:
            _units(layout_of(sites), name, targets[name])
    return kinds, shape_for(model, on)


def _units(layout: HeadLayout, name: Kind, amount: Amount) -> Budget:
    """The budget of a target that is a share or a number of heads or neurons."""
    every = removal(layout, name, 0)
    return removal(layout, name, count_of(name, amount, int(every.whole), int(most(every))))


def budgets_for(
    targets: Mapping[str, Amount],
    *,
    kinds: Collection[Kind],
    layout: HeadLayout,
    costs: Costs,
    table: Latency | None = None,
    repair: Repair,
) -> list[Budget]:
    """A budget for each target; units of these kinds may go. table: for a target `speedup`."""
    budgets = []
    for name, amount in targets.items():
        if name in KINDS:
            budgets.append(_units(layout, name, amount))
            continue
        share = float(1 / amount if name == "speedup" else amount)
        prices, whole = _prices(name, costs, table)
        saving = {
            place: [table[-1] - cost for cost in reversed(table)]
            for place, table in prices.items()
            if place[0] in kinds and len(table) > 1
        }
        budget = Budget(saving=saving, total=(1 - share) * whole, whole=whole, name=name)
        if name == "parameters":
            budget = _with_new_biases(budget, costs.new_biases, repair)
        budgets.append(budget)
        least = share + (budget.total - most(budget)) / whole
        check_reach(name, amount, least, costs.shape)
    return budgets


def _with_new_biases(budget: Budget, biases: Mapping[SiteKey, int], repair: Repair) -> Budget:
    """The budget that also saves the biases that a repair adds to projections without one."""
    if repair.new_biases == "none":
        return budget
    if repair.new_biases == "every":
        return replace(budget, total=budget.total + sum(biases.values()))
    saving = {
        place: [table[0], *(saved - biases[place] for saved in table[1:])]
        for place, table in budget.saving.items()
    }
    return replace(budget, saving=saving)


def _prices(name: str, costs: Costs, table: Latency | None) -> tuple[Prices, float]:
    """Return the cost of each layer, and the total that shares are of."""
    if name == "macs":
        return costs.macs, costs.of(costs.macs)
    if name == "parameters":
        return costs.parameters, costs.model_parameters
    assert table is not None
    return table.layers, table.whole


def check_reach(name: str, amount: Amount, least: float, shape: InputShape) -> None:
    """Raise an error if the target cannot be met; least: the smallest share that can remain.

    The error rounds what it expects to the side that can be reached.
    """
    if name == "speedup" and amount * least > 1:
        examples, tokens = shape  # hints name more examples: it may have no positions for tokens
        if least >= 1:
            raise DeadheadError(
                f"this model runs no faster on inputs of {examples} x {tokens} without any of its "
                f"heads and neurons, got speedup={float(amount):g}.",
                f"give larger inputs, where layers take more of the time: "
                f"on=({4 * examples}, {tokens}) or --on {4 * examples}x{tokens}",
            )
        fastest = floor(100 / least) / 100
        raise DeadheadError(
            f"`speedup` expects at most about {fastest:.2f} for this model on inputs of "
            f"{examples} x {tokens}, got {float(amount):g}.",
            "give a smaller number, or larger inputs, where layers take more of the time: "
            f"on=({4 * examples}, {tokens}) or --on {4 * examples}x{tokens}",
        )
    if name != "speedup" and amount < least:
        smallest = ceil(1000 * least) / 1000
        enough, option = min(0.99, (1 + least) / 2), TYPED[name].split()[0]
        raise DeadheadError(
            f"`{name}` expects at least {smallest:.3f}, which remains with one head and "
            f"without all neurons that can be removed, got {float(amount):g}.",
            f"give a larger share, such as {name}={enough:.2f} or {option} {enough:.0%}",
        )


def most(budget: Budget) -> float:
    """The most that can be saved while one head, or group of heads, is left in the model."""
    heads = [table for place, table in budget.saving.items() if place[0] == "heads"]
    spared = min((table[-1] - table[-2] for table in heads), default=0.0)
    return budget.most - spared
