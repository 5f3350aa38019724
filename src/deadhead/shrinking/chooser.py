"""The base of every method of choosing units: its facts, its curves, and how it improves a choice.

A subclass needs no torch to be imported, so that the help can list methods; it imports torch in
its calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deadhead.display.progress import Progress
from deadhead.layout import Batch, Kind, SiteKey

from .allocate import Budget, Curve, UnitIndices, allocate, in_order_of_cost

if TYPE_CHECKING:
    from torch import nn

    from deadhead.rankers.label_free import Loss


Chosen = dict[SiteKey, tuple[UnitIndices, ...]]  # the units to remove of each layer


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The data and statistics that a method may read."""

    model: nn.Module
    places: Chosen  # all units that may go
    batches: Sequence[Batch]
    loss: Loss | str | None
    seed: int
    progress: Progress
    statistics: Any = None  # from one pass over the data: statistics.py; None if not used

    def of(self, kind: Kind) -> Chosen:
        """The places of a kind, with their units."""
        return {place: units for place, units in self.places.items() if place[0] == kind}


class Chooser(ABC):
    """Base of the methods.

    kinds: what it can choose.
    reads: what it must know of the data.
    predicts: its costs are rises of the loss; else they are scores, and units go by score alone.
    uses_statistics: it needs the statistics of the whole model.
    needs_moments: these with the second moment of what each layer reads.
    needs_batches: these with the gradients of batches.
    has_teacher: its scales are fitted to a model that loses less: `Choice.teacher`.
    """

    help: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]] = ("heads", "neurons")
    reads: ClassVar[Literal["labels or a loss", "inputs", "nothing"]] = "labels or a loss"
    predicts: ClassVar[bool] = True
    uses_statistics: ClassVar[bool] = True
    needs_moments: ClassVar[bool] = False
    needs_batches: ClassVar[bool] = False
    has_teacher: ClassVar[bool] = False

    @abstractmethod
    def curves(self, evidence: Evidence, kind: Kind) -> list[Curve]:
        """A curve for each layer of a kind."""

    def allocated(
        self, curves: Sequence[Curve], saving: Mapping[SiteKey, Sequence[float]], total: float
    ) -> dict[SiteKey, int]:
        """Count the units that each layer loses so that the total is saved."""
        return (allocate if self.predicts else in_order_of_cost)(curves, saving, total)

    def improved(
        self, evidence: Evidence, chosen: Chosen, budget: Budget
    ) -> tuple[Chosen, float | None]:
        """A better choice of places of one kind, and its cost if it is not the sum of the curves.

        It saves no less than the budget asks for; if the budget has quotas, each layer loses as
        many units as before.
        """
        return chosen, None


def curve_of(place: SiteKey, units: Sequence[UnitIndices], costs: Sequence[float]) -> Curve:
    """The curve of a layer whose units each have a cost of their own."""
    order = sorted(range(len(units)), key=lambda number: (costs[number], units[number]))
    sums = accumulate(costs[number] for number in order)
    return Curve(place, tuple(units[number] for number in order), tuple(sums))
