"""What can be measured on a model besides its scores, one file each: how widely heads look, how far
their weights moved, how apart languages lie.

A measure is a frozen dataclass whose fields are its options. It is called with the model and with
what it may look at (`Given`), answers with plain data fit for JSON, and leaves the model as it found
it. Heads go by the names they were born with, also after others were cut. Importing loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deadhead.errors import DataError, unknown_name
from deadhead.rankers import named

if TYPE_CHECKING:
    from torch import Tensor

# The measures, each as the module of this room and the class in it that is imported when asked for.
MEASURES: dict[str, str] = {
    "entropy": "entropy:Entropy",
    "weights": "weights:Weights",
    "embeddings": "embeddings:Embeddings",
}
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Given:
    """What a measure may look at besides the model; data is made when it is asked for."""

    batches: Callable[
        [str, int], Sequence[Mapping[str, Any]]
    ]  # split, sentences -> batches with labels
    texts: Callable[
        [str, int], Mapping[str, Sequence[str]]
    ]  # split, sentences -> the same sentences by language
    tokenizer: Any = None
    began: Mapping[str, Tensor] | None = (
        None  # weights of heads before any training; None where none came yet
    )


class Measure(Protocol):
    """What every measure is: options as fields, and this call."""

    def __call__(self, model: Any, given: Given) -> dict[str, Any]: ...


def measure(name: str, **options: Any) -> Measure:
    """The measure of a name with these options, both checked."""
    made: Measure = named("measure", name, MEASURES, __name__, options)(**options)
    return made


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """An error unless an option is a whole number from `least` on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DataError(f"{name} is {value!r}.", f"give a whole number from {least} on")


def check_flag(name: str, value: Any) -> None:
    """An error unless an option is true or false."""
    if not isinstance(value, bool):
        raise DataError(f"{name} is {value!r}.", "give true or false")


def check_split(value: Any) -> None:
    if value not in SPLITS:
        raise unknown_name("split", value, SPLITS)


__all__ = ["MEASURES", "Given", "Measure", "measure"]
