"""What can be measured on a model besides its scores, one file each.

How widely heads attend, and to which tokens; how far their weights moved; how far apart languages
are. `MEASURES` has the class of each measure, which states everything about it: its options, the
data it needs, its words and how it is drawn. Importing a measure loads no torch.
"""

from typing import Any

from deadhead.registry import Registry
from deadhead.registry import options as checker

from .measure import HeadMap, Measure, MeasureInputs

MEASURES: Registry[type[Measure]] = Registry(
    "measure",
    __name__,
    {
        "entropy": "entropy:Entropy",
        "weights": "weights:Weights",
        "embeddings": "embeddings:Embeddings",
        "patterns": "patterns:Patterns",
    },
)


def measure(name: str, **options: Any) -> Measure:
    """The measure of a name with these options, both checked."""
    checker.check(name, MEASURES[name], options)
    return MEASURES[name](**options)


__all__ = ["MEASURES", "HeadMap", "Measure", "MeasureInputs", "measure"]
