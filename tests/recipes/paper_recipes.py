"""For the tests of the bundled recipes: what their trials are, in words."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from deadhead.studies import Recipe, Trial, built_in, load
from deadhead.studies.trial import label

PAPERS = ("weak-link", "mbert-prunability", "contributions")
OF_PAPERS = tuple(name for name in built_in() if name.partition("/")[0] in PAPERS)


def counted(recipe: Recipe, *fields: str) -> Counter[tuple[Any, ...]]:
    """How many distinct trials there are of each combination of these fields."""
    return Counter(tuple(label_of(trial.get(field)) for field in fields) for trial in recipe.trials)


@cache
def trials_of(name: str, scale: str | None = None) -> list[Trial]:
    return load(name, scale=scale).trials


def label_of(value: Any) -> Any:
    return "none" if value is None else label(value)


def removals(name: str, scale: str | None = None) -> list[str]:
    """What a recipe removes, in its order, each once."""
    return list(
        dict.fromkeys(
            str(label_of(cell.labels["remove"])) for cell in load(name, scale=scale).cells
        )
    )
