"""What every method of choosing units is: its facts, its curves, and how it improves a choice.

A subclass needs no torch to be imported, so that the help can list methods; it imports torch in
its calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from deadhead.progress import Progress

from .allocate import Budget, Curve, Place, Unit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deadhead.rankers.label_free import Loss


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a method may look at."""

    model: nn.Module
    places: Mapping[Place, tuple[Unit, ...]]  # the units that may go
    batches: Sequence[Mapping[str, Tensor]]
    loss: Loss | str | None
    seed: int
    progress: Progress

    def of(self, kind: str) -> dict[Place, tuple[Unit, ...]]:
        """The places of a kind, with their units."""
        return {place: units for place, units in self.places.items() if place[0] == kind}


class Chooser(ABC):
    """Base of the methods.

    kinds: what it can choose.
    reads: what it must know of the data.
    predicts: its costs are rises of the loss; else they are scores, and units go by score alone.
    """

    help: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("heads", "neurons")
    reads: ClassVar[Literal["labels or a loss", "inputs", "nothing"]] = "labels or a loss"
    predicts: ClassVar[bool] = True

    @abstractmethod
    def curves(self, evidence: Evidence, kind: str) -> list[Curve]:
        """A curve for each place of a kind."""

    def improved(
        self, evidence: Evidence, chosen: dict[Place, tuple[Unit, ...]], budget: Budget
    ) -> tuple[dict[Place, tuple[Unit, ...]], float | None]:
        """A better choice that saves as much, and its cost if it is not the sum of the curves."""
        return chosen, None


def curve_of(place: Place, units: Sequence[Unit], costs: Sequence[float]) -> Curve:
    """The curve of a place whose units each have a cost of their own."""
    order = sorted(range(len(units)), key=lambda number: (costs[number], units[number]))
    total, sums = 0.0, []
    for number in order:
        total += costs[number]
        sums.append(total)
    kind, block, layer = place
    ordered = tuple(units[number] for number in order)
    return Curve(kind=kind, block=block, layer=layer, units=ordered, costs=tuple(sums))
