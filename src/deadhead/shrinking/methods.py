"""Methods that predict the rise of the loss from statistics of the full model."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from deadhead.layout import Kind, SiteKey
from deadhead.rankers.fisher import greedy

from .allocate import ROUNDING, Budget, Curve, UnitIndices, in_order_of_cost
from .chooser import Chooser, Chosen, Evidence, curve_of
from .search import cheapest_set, rearranged, swapped


class Reconstruction(Chooser):
    """The error that the best refit of each layer leaves, each token weighted by its gradient."""

    help = "the error that remains after the best refit, each token weighted by its gradient"
    needs_moments = True

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        curves = []
        for place, units in evidence.of(kind).items():
            order, errors = evidence.statistics.orders[place]
            own = tuple(units[number] for number in order)
            curves.append(Curve(place, own, tuple(error / 2 for error in errors)))
        return curves


class Fisher(Chooser):
    """The set of heads that costs least together by the whole Fisher matrix of their gates."""

    help = "the set of heads that costs least by the whole Fisher matrix; neurons by its diagonal"

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        if kind == "neurons":
            return by_diagonal(evidence, kind)
        places = evidence.of(kind)
        numbers = [(place, unit) for place, units in places.items() for unit in units]
        order, sums = greedy(evidence.statistics.matrix(places))
        steps = [(after - before) / 2 for before, after in pairwise((0.0, *sums))]
        leaving: dict[SiteKey, list[tuple[UnitIndices, float]]] = {place: [] for place in places}
        for number, step in zip(order, steps, strict=True):
            place, unit = numbers[number]
            leaving[place].append((unit, max(step, 0.0)))
        return [
            Curve(place, tuple(unit for unit, _ in own), tuple(accumulate(step for _, step in own)))
            for place, own in leaving.items()
        ]

    def improved(
        self, evidence: Evidence, chosen: Chosen, budget: Budget
    ) -> tuple[Chosen, float | None]:
        if any(kind != "heads" for kind, _, _ in chosen):
            return chosen, None
        matrix = evidence.statistics.matrix(chosen)
        prices = [_price(budget.saving[place]) for place in chosen]
        sizes = [len(evidence.places[place]) for place in chosen]
        if None in prices or budget.quotas:
            layers = np.repeat(np.arange(len(sizes)), sizes)
            removed = swapped(matrix, _flags(evidence, chosen), labels=layers)
        else:
            saved = sum(budget.saving[place][len(units)] for place, units in chosen.items())
            total = budget.total if chosen.keys() == budget.saving.keys() else saved
            removed = cheapest_set(matrix, np.repeat(np.array(prices, dtype=float), sizes), total)
        return _by_place(evidence, chosen, removed), float(removed @ matrix @ removed) / 2


class Kwon(Chooser):
    """Kwon et al. 2022: the diagonal of the Fisher matrix of batches, then swaps in each layer."""

    help = "Kwon et al.: the diagonal of the Fisher matrix of batches, then swaps in each layer"
    needs_batches = True
    has_teacher = True

    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        places = evidence.statistics.places
        return [
            curve_of(place, units, (places[place].by_batch.square().sum(0) / 2).tolist())
            for place, units in evidence.of(kind).items()
        ]

    def allocated(
        self, curves: Sequence[Curve], saving: Mapping[SiteKey, Sequence[float]], total: float
    ) -> dict[SiteKey, int]:
        """The authors' search, where all units of a kind save the same.

        For each number of heads, the cheapest of all layers leave, and the cheapest neurons that
        must leave besides.
        """
        heads, neurons = (
            [c for c in curves if c.place[0] == kind] for kind in ("heads", "neurons")
        )
        prices = [{_price(saving[c.place]) for c in some} for some in (heads, neurons)]
        if any(len(some) > 1 or None in some for some in prices):
            return super().allocated(curves, saving, total)
        if not heads or not neurons:
            return in_order_of_cost(curves, saving, total)
        of_head, of_neuron = (price for (price,) in prices if price is not None)
        costs, others = _sums(heads), _sums(neurons)
        missing = total * (1 - ROUNDING) - of_head * np.arange(len(costs))
        needed = np.ceil(missing / of_neuron).clip(0).astype(int)
        costs = costs + np.append(others, np.inf)[needed.clip(max=len(others))]
        saved = of_head * int(np.argmin(costs))
        by_head = in_order_of_cost(heads, saving, saved)
        return by_head | in_order_of_cost(neurons, saving, total - saved)

    def improved(
        self, evidence: Evidence, chosen: Chosen, budget: Budget
    ) -> tuple[Chosen, float | None]:
        better, cost = {}, 0.0
        for place, old in chosen.items():
            units = evidence.places[place]
            gradients = evidence.statistics.places[place].by_batch.T.double().cpu().numpy()
            removed = rearranged(gradients, len(old))
            better[place] = tuple(units[number] for number in removed)
            cost += float(np.square(gradients[removed].sum(0)).sum()) / 2
        return better, cost


def by_diagonal(evidence: Evidence, kind: Kind) -> list[Curve]:
    """The curves of units that each cost half their own squared gate gradients at tokens."""
    curves = []
    for place, units in evidence.of(kind).items():
        squares = evidence.statistics.places[place].by_token
        curves.append(curve_of(place, units, (squares / evidence.statistics.examples / 2).tolist()))
    return curves


def _sums(curves: Iterable[Curve]) -> np.ndarray:
    """Add up the costs of the 0, 1, 2, ... cheapest units of these layers."""
    steps = np.concatenate([np.diff((0.0, *curve.costs)) for curve in curves])
    return np.append(0.0, np.sort(steps).cumsum())


def _price(table: Sequence[float]) -> float | None:
    """Return what each unit saves, where all units of a layer save the same."""
    if len(table) < 2:
        return None
    price = table[-1] / (len(table) - 1)
    same = np.allclose(table, price * np.arange(len(table)), rtol=1e-9, atol=1e-9 * abs(table[-1]))
    return price if same and price > 0 else None


def _flags(evidence: Evidence, chosen: Chosen) -> np.ndarray:
    """Mark the units that are removed, in the order of the layers."""
    return np.array(
        [unit in units for place, units in chosen.items() for unit in evidence.places[place]]
    )


def _by_place(evidence: Evidence, places: Iterable[SiteKey], removed: np.ndarray) -> Chosen:
    """The opposite of `_flags`."""
    flags = iter(removed.tolist())
    return {
        place: tuple(unit for unit in evidence.places[place] if next(flags)) for place in places
    }
