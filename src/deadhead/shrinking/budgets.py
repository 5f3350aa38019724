"""The budget of each target, from the costs of the layers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor

from torch import nn

from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.heads.loading import same_sizes
from deadhead.heads.site import Site
from deadhead.layout import HeadLayout, Kind, SiteKey

from .allocate import Budget, Quota, removal
from .costs import Costs, Full, InputShape, Prices, shape_for
from .latency import Latency
from .repairs import Repair
from .target import KINDS, LAST, TYPED, Allowed, Amount, count_of, kinds_of


def check_targets(
    model: nn.Module, targets: Mapping[str, Amount], on: InputShape | None, allowed: Allowed
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
    kinds = _of_enough_units(sites, kinds, targets, allowed.multiple)
    quotas = quotas_for(model, sites, kinds, allowed)
    for name in KINDS:
        if name in targets:
            _units(layout_of(sites), name, targets[name], quotas)
    return kinds, shape_for(model, on)


def check_megabytes(targets: Mapping[str, Amount], megabytes: float) -> None:
    """Raise an error for a target that is no smaller than the model."""
    if (amount := targets.get("megabytes")) is not None and amount >= megabytes:
        raise DeadheadError(
            f"`megabytes` expects less than {megabytes:,.1f}, the weights of the model, got "
            f"{float(amount):g}.",
            "the model is that small already; to make it smaller, give fewer megabytes",
        )


def _of_enough_units(
    sites: Sequence[Site], kinds: Sequence[Kind], targets: Collection[str], multiple: int
) -> tuple[Kind, ...]:
    """Return the kinds whose layers all have a multiple; raise an error for one that is a target.

    The other kinds stay whole.
    """
    fewest = {kind: min(len(s.kept) for s in sites if s.kind == kind and s.kept) for kind in kinds}
    enough = tuple(kind for kind in kinds if fewest[kind] >= multiple)
    for kind in kinds:
        if kind not in enough and (kind in targets or not enough):
            raise DeadheadError(
                f"`multiple` expects at most {fewest[kind]:,}, the {kind} of the smallest layer, "
                f"got {multiple:,}.",
                "give a smaller number, such as multiple=2 or --multiple 2",
            )
    return enough


def quotas_for(
    model: nn.Module, sites: Sequence[Site], kinds: Collection[Kind], allowed: Allowed
) -> tuple[Quota, ...]:
    """The numbers of units that the layers of these kinds may lose."""
    if allowed == Allowed():
        return ()
    some = [site for site in sites if site.kind in kinds and site.kept]
    quotas = []
    for together in same_sizes(model, some) if allowed.even else [[site] for site in some]:
        site = together[0]
        sizes = {(len(other.kept), *map(len, other.groups)) for other in together}
        if len(sizes) > 1 or len({*map(len, site.groups)}) > 1:
            kept = sorted({len(other.kept) for other in together})
            raise DeadheadError(
                f"`{'even' if allowed.even else 'multiple'}` expects layers with the same numbers "
                f"of {site.kind} in groups of the same size, got {', '.join(map(str, kept))} in "
                f"the {site.block}.",
                "leave it out, or start from the model before it was pruned",
            )
        size, unit = len(site.groups), len(site.groups[0])
        counts = [n for n in range(size + 1) if (size - n) * unit % allowed.multiple == 0]
        if allowed.even:
            counts = [n for n in counts if n < size]
        quotas.append(Quota(tuple(other.key for other in together), tuple(counts)))
    return tuple(quotas)


def _of_kinds(quotas: Sequence[Quota], kinds: Collection[Kind]) -> tuple[Quota, ...]:
    return tuple(quota for quota in quotas if quota.places[0][0] in kinds)


def _units(layout: HeadLayout, name: Kind, amount: Amount, quotas: Sequence[Quota]) -> Budget:
    """The budget of a target that is a share or a number of heads or neurons."""
    every = replace(removal(layout, name, 0), quotas=_of_kinds(quotas, [name]))
    stays = "what `even` and `multiple` ask for" if every.quotas else LAST
    count = count_of(name, amount, int(every.whole), int(most(every)), stays)
    return replace(every, total=float(count))


def budgets_for(
    targets: Mapping[str, Amount],
    *,
    kinds: Collection[Kind],
    layout: HeadLayout,
    costs: Costs,
    full: Full,
    table: Latency | None = None,
    repair: Repair,
    quotas: Sequence[Quota] = (),
) -> list[Budget]:
    """A budget for each target; units of these kinds may go. Nothing says that it can be met.

    full: what the shares are of. table: for a target `speedup`.
    """
    budgets = []
    for name, amount in targets.items():
        if name in KINDS:
            budgets.append(_units(layout, name, amount, quotas))
            continue
        prices, now = _prices(name, costs, table)
        saving = {
            place: [table[-1] - cost for cost in reversed(table)]
            for place, table in prices.items()
            if place[0] in kinds and len(table) > 1
        }
        budget = Budget(
            saving=saving, total=now - full.share(name, amount) * full.amount(name), whole=now,
            name=name, quotas=_of_kinds(quotas, kinds),
        )  # fmt: skip
        if prices is costs.parameters:
            budget = _with_new_biases(budget, costs.new_biases, repair)
        budgets.append(budget)
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
    """Return the cost of each layer, and that of the model."""
    if name == "macs":
        return costs.macs, costs.of(costs.macs)
    if name == "speedup":
        assert table is not None
        return table.layers, table.whole
    return costs.parameters, costs.model_parameters


class OutOfReach(DeadheadError):
    """A target that the model cannot meet."""


def check_budgets(
    budgets: Iterable[Budget], targets: Mapping[str, Amount], full: Full, shape: InputShape
) -> None:
    """Raise an error if a budget cannot be met."""
    for budget in budgets:
        if (name := budget.name) not in KINDS:
            missing = (budget.total - most(budget)) / full.amount(name)
            least = full.share(name, targets[name]) + missing
            check_reach(name, targets[name], least, shape, full.megabytes)


def check_reach(
    name: str, amount: Amount, least: float, shape: InputShape, megabytes: float = 1.0
) -> None:
    """Raise an error if the target cannot be met; least: the smallest share that can remain.

    megabytes: of the full model. The error rounds what it expects to the side that can be reached.
    """
    if name == "speedup" and amount * least > 1:
        examples, tokens = shape  # hints name more examples: it may have no positions for tokens
        larger = (
            f"larger inputs, where layers take more of the time: "
            f"on=({4 * examples}, {tokens}) or --on {4 * examples}x{tokens}"
        )
        if least >= 1:
            raise OutOfReach(
                f"this model runs no faster on inputs of {examples} x {tokens} without all parts "
                f"that may go, got speedup={float(amount):g}.",
                f"give {larger}",
            )
        fastest = floor(100 / least) / 100
        raise OutOfReach(
            f"`speedup` expects at most about {fastest:.2f} for this model on inputs of "
            f"{examples} x {tokens}, got {float(amount):g}.",
            f"give a smaller number, or {larger}",
        )
    least *= megabytes if name == "megabytes" else 1
    if name != "speedup" and amount < least:
        option = TYPED[name].split()[0]
        if name == "megabytes":
            smallest, enough = f"{ceil(10 * least) / 10:,.1f}", f"{ceil((megabytes + least) / 2)}"
            hint = f"give more megabytes, such as {name}={enough} or {option} {enough}"
        else:
            smallest, share = f"{ceil(1000 * least) / 1000:.3f}", min(0.99, (1 + least) / 2)
            hint = f"give a larger share, such as {name}={share:.2f} or {option} {share:.0%}"
        raise OutOfReach(
            f"`{name}` expects at least {smallest}, which remains without all parts that may go, "
            f"got {float(amount):g}.",
            hint,
        )


def most(budget: Budget) -> float:
    """The most that can be saved while one head, or group of heads, is left in the model."""
    heads = [
        (table, len(budget.saving[quota.places[0]]) - 1 in quota.counts)
        for quota, table in zip(budget.possible(budget.saving), budget.tables(), strict=True)
        if quota.places[0][0] == "heads"
    ]
    every = heads and all(empties for _, empties in heads)
    return budget.most - (min(table[-1] - table[-2] for table, _ in heads) if every else 0.0)
