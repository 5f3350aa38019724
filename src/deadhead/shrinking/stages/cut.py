"""Cut: what each choice removes, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadhead.heads.gates import gated
from deadhead.layout import SiteKey
from deadhead.shrinking.choose import Choice

from .calibration import Calibration, LossAndScore
from .choice import Choices
from .evidence import Evidence
from .stopwatch import Stopwatch


@dataclass(frozen=True, kw_only=True)
class CutModel:
    """The model without the units of a choice; they are still in it."""

    choice: Choice
    removed: Mapping[SiteKey, int]  # units that each layer loses
    speed: float | None  # predicted; None without a table of times

    def measure(self, calibration: Calibration, watch: Stopwatch) -> LossAndScore:
        """Measure with the units closed by gates."""
        with gated(calibration.model, closed=self.choice.heads, neurons=self.choice.neurons):
            return calibration.measure(watch)


def cut_by_each(
    calibration: Calibration, evidence: Evidence, choices: Choices
) -> tuple[CutModel, ...]:
    """The cut of each choice."""
    cuts = []
    for choice in choices.choices:
        removed, speed = calibration.removed_by(choice), None
        if evidence.table is not None:
            speed = evidence.speed_without(removed, choices.factors.get(choice.name, 1.0))
        cuts.append(CutModel(choice=choice, removed=removed, speed=speed))
    return tuple(cuts)
