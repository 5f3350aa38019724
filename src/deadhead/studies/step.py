"""What a step is: a word of a recipe's `steps`, with all that a study must know about it.

Each step is one class in a file of `steps/` and its name in `NAMES`. A step states which fields
of a trial it uses and how they are checked, which data it reads, and what kind of work it does;
plans, checks, ids and records follow from that. Importing a step loads no torch: `run` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from deadhead.registry import Registry

from .fields import SHARED, Field

Read = tuple[str, str, str]  # task, language, split
Pass = tuple[Read, float, int | None]  # data, forward passes over it, the most examples of it


class Step(ABC):
    """A step of a trial. The attributes say what kind of work it does; the methods do it.

    A `trial` below is a `studies.trial.Trial`, and a `state` a `studies.steps.state.State`.
    """

    name: str
    fields: tuple[Field, ...] = ()  # those it uses, besides model, task and data
    needs: tuple[str, ...] = ()  # fields that a recipe with this step must give

    trains = False  # trains the model
    ranks = False  # makes a ranking of the heads
    prunes = False  # removes heads or neurons
    inspects = False  # scores or measures the model and leaves it as it is
    restarts = False  # goes back to the weights that the trial began with
    builds_model = False  # builds the model, so that the trial names no weights
    uses_languages = False  # works on the languages of training or ranking (`Trial.languages`)
    lasting = True  # what it adds to the record stays after a restart

    def reads(self, trial: Any, place: int) -> Iterator[Read]:
        """The data that the step at this place of the trial reads."""
        return iter(())

    def passes(self, trial: Any, place: int) -> Iterator[Pass]:
        """For an estimate of time; a backward pass counts as two forward passes."""
        return iter(())

    def part_trials(self, trial: Any, place: int) -> Iterator[tuple[list[str], dict[str, Any]]]:
        """The trials that this step runs itself: steps and fields of each."""
        return iter(())

    def misplaced(self, steps: Sequence[Step], place: int) -> str | None:
        """What is wrong with this place among the steps of a recipe."""
        return None

    def conflicts(
        self, steps: Sequence[Step], values: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with fields together: the part of the recipe, and a message.

        values: all values a recipe gives to each field.
        """
        return iter(())

    def write_out(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Its fields with presets written out: what those mean tomorrow must change no id."""
        return {}

    def settle(self, values: dict[str, Any], steps: Sequence[Step]) -> None:  # noqa: B027
        """Leave out of the fields of a trial what does not change its numbers."""

    def is_idle(self, values: Mapping[str, Any]) -> bool:
        """Whether it would do nothing with these fields of a trial, which then lacks the step."""
        return False

    @abstractmethod
    def run(self, state: Any, trial: Any) -> None:
        """Do the step: change the model in the state and add to the record."""


NAMES = (
    "pretrain",
    "finetune",
    "rank",
    "rank_each",
    "restart",
    "prune",
    "shrink",
    "evaluate",
    "measure",
)
STEPS: Registry[Step] = Registry(
    "step", "deadhead.studies.steps", {name: f"{name}:STEP" for name in NAMES}
)


def fields() -> Mapping[str, Field]:
    """All fields a trial may have: those every trial has, and those of the steps."""
    return _fields(tuple(STEPS))


@cache
def _fields(names: tuple[str, ...]) -> dict[str, Field]:
    own = (field for name in names for field in STEPS[name].fields)
    return {field.name: field for field in (*SHARED, *own)}


def is_inspected(steps: Sequence[Step], place: int) -> bool:
    """Whether a step scores or measures the model as the step at this place left it."""
    later = next((step for step in steps[place + 1 :] if step.inspects or not step.ranks), None)
    return later is not None and later.inspects
