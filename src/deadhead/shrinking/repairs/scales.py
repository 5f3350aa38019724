"""One factor for each remaining head and neuron, as Kwon et al. 2022 do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deadhead.display.progress import Progress
from deadhead.layout import Batch

from .repair import Repair

if TYPE_CHECKING:
    from torch import nn

    from deadhead.shrinking.choose import Choice
    from deadhead.shrinking.refitting import RefitPlan


def _plan(
    model: nn.Module, batches: Sequence[Batch], choice: Choice, progress: Progress
) -> RefitPlan:
    from deadhead.shrinking.scales import plan_scales

    return plan_scales(model, batches, choice, progress=progress)


SCALES = Repair(help="scale each remaining unit, as Kwon et al. 2022", plan=_plan)
