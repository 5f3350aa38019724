"""A flag of `deadhead prune` for every strategy, read from the table of strategies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, Signature
from typing import Annotated, Any

from typer import Option

from deadhead.strategies import STRATEGIES


def flags() -> dict[str, str]:
    """The flag of each strategy: `--random`, `--keep`."""
    names = {name: each.flag or name.replace("_", "-") for name, each in STRATEGIES.items()}
    return {name: f"--{flag}" for name, flag in names.items()}


class WithStrategyFlags:
    """A command whose `**amounts` are filled by the flags of strategies, made when it is read."""

    def __init__(self, command: Callable[..., None]):
        update_wrapper(self, command)
        self.command = command

    def __call__(self, **values: Any) -> None:
        self.command(**values)

    @property
    def __signature__(self) -> Signature:
        signature = inspect.signature(self.command, eval_str=True)
        fixed = [p for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        place = 1 + [p.name for p in fixed].index("heads")
        return signature.replace(
            parameters=[*fixed[:place], *map(_parameter, flags()), *fixed[place:]]
        )


def _parameter(name: str) -> Parameter:
    strategy = STRATEGIES[name]
    option = Option(flags()[name], metavar=strategy.amount.metavar, help=strategy.help)
    kind = Annotated[strategy.amount.typed | None, option]  # type: ignore[name-defined]
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
