"""For the tests of the bundled recipes: what their trials are, in words."""

from collections import Counter
from functools import cache

from deadhead.studies import built_in, load
from deadhead.studies.trial import label

PAPERS = ("weak-link", "mbert-prunability", "contributions")
OF_PAPERS = tuple(name for name in built_in() if name.partition("/")[0] in PAPERS)


def counted(recipe, *fields):
    """How many distinct trials there are of each combination of these fields."""
    return Counter(tuple(label_of(trial.get(field)) for field in fields) for trial in recipe.trials)


@cache
def trials_of(name, scale=None):
    return load(name, scale=scale).trials


def label_of(value):
    return "none" if value is None else label(value)


def removals(name, scale=None):
    """What a recipe removes, in its order, each once."""
    return list(
        dict.fromkeys(
            str(label_of(cell.labels["remove"])) for cell in load(name, scale=scale).cells
        )
    )
