"""The descriptor of a repair. Needs no torch, so that the help can list repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from deadhead.display.progress import Progress
from deadhead.layout import Batch

if TYPE_CHECKING:
    from torch import nn

    from deadhead.shrinking.choose import Choice
    from deadhead.shrinking.refitting import RefitPlan

Planner = Callable[..., "RefitPlan"]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """One way to repair the layers that a choice cuts.

    help: what it does, for lists of repairs.
    plan: called with the model, which it must not change, the batches, the choice and what shows
        the progress. It gives the new weights; `shrink` tries them, and applies the best ones.
    new_biases: the layers whose output projection may get a bias that it did not have: "none",
        those that are "cut", or "every" one. A target `parameters` saves them too. Unless "none",
        `plan` has an argument `new_biases`: whether they may.
    compare_by: the name of the faster repair by which methods of choosing are compared; None for
        this one.
    """

    help: str
    plan: Planner
    new_biases: Literal["none", "cut", "every"] = "none"
    compare_by: str | None = None

    def without_new_biases(self) -> Repair:
        """The repair that gives no projection a bias that it did not have."""
        if self.new_biases == "none":
            return self
        return replace(self, plan=partial(self.plan, new_biases=False), new_biases="none")


def refitting_by(*candidates: str, everywhere: bool = False) -> Planner:
    """Plan a refit that tries these candidates in each layer."""

    def plan(
        model: nn.Module,
        batches: Sequence[Batch],
        choice: Choice,
        progress: Progress,
        new_biases: bool = True,
    ) -> RefitPlan:
        from deadhead.shrinking.refitting import plan_refit

        return plan_refit(
            model, batches, choice.heads, choice.neurons,
            candidates=candidates, everywhere=everywhere, new_biases=new_biases,
            progress=progress,
        )  # fmt: skip

    return plan
