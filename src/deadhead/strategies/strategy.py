"""What a strategy says about itself: everything that recipes, tables and commands must know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deadhead.errors import DeadheadError, HeadError
from deadhead.layout import Head

Heads = frozenset[Head]
HeadScores = Mapping[Head, float] | None


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What a strategy is given to say how much to remove."""

    metavar: str  # in the help of the command line
    check: Callable[[Any], Any]  # refuses what has no meaning for any model
    typed: type = str  # how the command line reads it
    axis: str  # the title of an axis that counts it
    unit: str = ""  # behind the number in tables: %, heads
    zero_is_nothing: bool = False  # 0 removes nothing: it counts what is removed, not what is kept


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to choose the heads to remove, with its facts and words."""

    select: Callable[..., Heads]
    amount: Amount
    help: str  # for its flag of `deadhead prune`
    label: str  # in legends, without an amount
    sentence: str  # in findings, behind "without": "{amount} heads at random"
    sentence_of_one: str = ""  # the same for the amount 1
    short: str = ""  # in tables, before the amount; the name by default
    flag: str = ""  # of `deadhead prune`; by default `remove-` and the name
    draws: bool = False  # chooses at random, so that the seed of the draw matters
    even: bool = False  # draws from all layers alike: the amount names none of them
    nested: bool = False  # a larger amount contains the smaller: its draws are not independent
    needs_scores: bool = False  # chooses by the scores of a ranking

    def __call__(self, *args: Any, **options: Any) -> Heads:
        return self.select(*args, **options)

    def check_amount(self, name: str, amount: Any) -> None:
        """Raise an error for an amount that has no meaning for any model."""
        if amount is None or isinstance(amount, bool):
            message = f"{name} expects {self.amount.metavar}, got {amount!r}."
            raise HeadError(message, f"write {name}: {self.amount.metavar}")
        try:
            self.amount.check(amount)
        except DeadheadError:
            raise
        except (TypeError, ValueError):
            message = f"{name} expects {self.amount.metavar}, got {amount!r}."
            raise HeadError(message, self.help) from None

    def in_words(self, amount: Any) -> str:
        """A removal in a sentence: `the 6 lowest-ranked heads`."""
        one = self.sentence_of_one if amount == 1 else ""
        return (one or self.sentence).format(amount=amount)
