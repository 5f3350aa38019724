"""Which heads a trial removes: the strategy, amount and options of the field `remove`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadhead.strategies import STRATEGIES


@dataclass(frozen=True)
class Removal:
    """A strategy that removes something."""

    strategy: str
    amount: Any
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, value: Any) -> Removal | None:
        """The removal of a field `remove`; None where it removes nothing."""
        strategy = strategy_of(value)
        if strategy is None:
            return None
        if value[strategy] == 0 and STRATEGIES[strategy].amount.zero_is_nothing:
            return None
        options = {name: item for name, item in value.items() if name != strategy}
        return cls(strategy, value[strategy], options)

    @property
    def draws(self) -> bool:
        return STRATEGIES[self.strategy].draws

    @property
    def needs_scores(self) -> bool:
        return STRATEGIES[self.strategy].needs_scores


def strategy_of(value: Any) -> str | None:
    """The strategy that a field `remove` names."""
    names = value if isinstance(value, Mapping) else ()
    return next((name for name in names if name in STRATEGIES), None)


def label(value: Any) -> Any:
    """A value as a table names it; a removal becomes `random 50 per=block`."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return "+".join(str(item) for item in value)
    strategy = strategy_of(value)
    first = [] if strategy is None else [f"{strategy} {value[strategy]}"]
    options = (f"{name}={item}" for name, item in value.items() if name != strategy)
    return " ".join([*first, *options])
