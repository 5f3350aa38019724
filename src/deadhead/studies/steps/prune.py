"""The step `prune`: remove the heads that a strategy picks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deadhead.errors import DeadheadError, unknown_name
from deadhead.layout import GROUPS
from deadhead.strategies import STRATEGIES, choose
from deadhead.studies.fields import Field, Problem, check_seed, option_problems, unknown
from deadhead.studies.step import Step
from deadhead.studies.trial import Removal, Trial

from .state import State


def _check_removal(value: Any) -> Iterator[Problem]:
    if value == "none":
        return
    if not isinstance(value, dict):
        expected = "none, or a strategy and its amount such as {random: 50}"
        yield (), f"expected {expected}, got {value!r}."
        return
    strategies = [name for name in value if name in STRATEGIES]
    if len(strategies) != 1:
        error = unknown_name("strategy", next(iter(value), ""), STRATEGIES)
        yield (), "expected one strategy, got several." if strategies else error.message
        return
    (name,) = strategies
    options = {option: item for option, item in value.items() if option != name}
    yield from option_problems(name, STRATEGIES[name].select, options, "seed", "scores")
    try:
        STRATEGIES[name].check_amount(name, value[name])
    except DeadheadError as problem:
        yield (name,), problem.message


def _check(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), "expected a mapping such as {drop_output_bias: true}."
        return
    yield from unknown(value, ("drop_output_bias", "groups"), "option of prune")
    if value.get("groups", "whole") not in GROUPS:
        yield ("groups",), f"expected {' or '.join(GROUPS)}, got {value['groups']!r}."
    if not isinstance(value.get("drop_output_bias", False), bool):
        yield ("drop_output_bias",), f"expected true or false, got {value['drop_output_bias']!r}."


def _not_default(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if item not in (False, "whole")}


# Which heads go: a strategy and its amount, or none.
REMOVE = Field(
    name="remove",
    check=_check_removal,
    canonical=lambda value: None if Removal.parse(value) is None else value,
    single=True,
)
# The seed of heads removed at random, where it differs from `seed`.
DRAW = Field(name="draw", check=check_seed, single=True, needs_step=False)
# How they go: drop_output_bias, whether a layer without heads loses its output bias too; groups,
# `whole` or `expand`: where heads share key/value heads, these are copied to remove single heads.
PRUNE = Field(
    name="prune",
    check=_check,
    canonical=lambda value: _not_default(value) or None,  # defaults are in no id
)


class Prune(Step):
    """Remove the heads that `remove` picks."""

    name = "prune"
    fields = (REMOVE, DRAW, PRUNE)
    needs = ("remove",)
    prunes = True
    lasting = False

    def is_idle(self, values: Mapping[str, Any]) -> bool:
        return Removal.parse(values.get("remove")) is None

    def conflicts(
        self, steps: Sequence[Step], values: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[str, str]]:
        place = next(i for i, step in enumerate(steps) if step is self)
        if any(step.ranks for step in steps[:place]):
            return
        for removal in map(Removal.parse, values.get("remove", ())):
            if removal is not None and removal.needs_scores:
                reason = "no step before prune makes one; add rank to steps"
                yield "steps", f"{removal.strategy} needs a ranking, and {reason}."
                return

    def settle(self, values: dict[str, Any], steps: Sequence[Step]) -> None:
        removal = Removal.parse(values.get("remove"))
        if removal is None or not removal.draws:
            values.pop("draw", None)
        else:
            values.setdefault("draw", values["seed"])

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.heads import discover, prune

        from . import models

        removal = Removal.parse(trial.get("remove"))
        if removal is None:
            return
        model = models.model(state, trial)
        layout = discover(model)
        options = {"seed": trial.get("draw", 0), **removal.options}
        options["scores"] = None if state.ranking is None else state.ranking.scores
        how = trial.get("prune") or {}
        single = how.get("groups") == "expand"
        choices = layout.in_single_heads() if single else layout
        heads = choose(removal.strategy, choices, removal.amount, **options)
        prune(model, heads, **how)
        state.kept.pop("first", None)  # they are weights of the unpruned model
        state.removed += [str(head) for head in layout.check(heads)]
        state.cost["heads before"] = len(layout)
        state.cost["parameters after"] = models.count(model)


STEP = Prune()
