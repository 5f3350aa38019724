"""What every measure is: a frozen dataclass with its options, its facts and words, and one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deadhead.layout import Head
from deadhead.registry.options import Checked

if TYPE_CHECKING:
    from torch import Tensor

Split = Literal["train", "dev", "test"]
Stages = Mapping[str, Any]  # before, first (after epoch 1), after training -> what was measured


@dataclass(frozen=True)
class MeasureInputs:
    """What a measure may read besides the model; data is loaded on the call."""

    batches: Callable[[str, int], Sequence[Mapping[str, Any]]]  # split, sentences -> with labels
    texts: Callable[[str, int], Mapping[str, Sequence[str]]]  # split, sentences -> by language
    tokenizer: Any = None
    start: Mapping[str, Tensor] | None = None  # weights of heads before any training, if any


@dataclass(frozen=True, kw_only=True)
class HeadMap:
    """One map of numbers per head: its words and how the page shows it, as in `Measure`."""

    label: str
    help: str
    legend: str
    is_change: bool = False
    digits: int = 5


class Measure(Checked, ABC):
    """Base of the measures. Fields are options; class variables are facts and words."""

    label: ClassVar[str]  # in titles: "Attention entropy"
    help: ClassVar[str]  # what it measures, in a sentence; the note of its figure
    legend: ClassVar[str]  # title of the scale of its map, with the unit
    # the data it needs: that of the languages of training, or the texts of all targets
    reads: ClassVar[Literal["nothing", "training data", "target texts"]] = "nothing"
    needs_start: ClassVar[bool] = False  # compares with the weights before training
    # a number for each head, drawn as a map; several such maps by name; or points by language
    drawn_as: ClassVar[Literal["map", "maps", "points"]] = "map"
    is_change: ClassVar[bool] = False  # by training, so it is shown only after training
    digits: ClassVar[int] = 5  # to which the page rounds

    @abstractmethod
    def __call__(self, model: Any, inputs: MeasureInputs) -> dict[str, Any]:
        """Plain data fit for JSON; for a map, a number for each head by its original name.

        Several maps are stored by the part of their name behind the dot. The model is left as it
        was.
        """

    @classmethod
    def maps(cls, name: str) -> dict[str, HeadMap]:
        """The maps of heads that it gives under its name: one `NAME`, or several `NAME.PART`."""
        if cls.drawn_as == "points":
            return {}
        return {
            name: HeadMap(
                label=cls.label,
                help=cls.help,
                legend=cls.legend,
                is_change=cls.is_change,
                digits=cls.digits,
            )
        }

    @classmethod
    def finding(cls, trials: Sequence[Stages]) -> str | None:
        """A sentence about what trials measured; None where there is nothing to say."""
        name = cls.label[:1].lower() + cls.label[1:]
        if cls.is_change:
            means = layer_means([stages["after"] for stages in trials if stages.get("after")])
            if len(means) < 2:
                return None
            low, high = (choose(means, key=means.__getitem__) for choose in (min, max))
            number = trials_in_words(sum(bool(stages.get("after")) for stages in trials))
            return (
                f"The {name} is largest in {high} ({means[high]:.2g} in the mean) and smallest in "
                f"{low} ({means[low]:.2g}; {number})."
            )
        sides = before_and_after(trials)
        if sides is None:
            return None
        return (
            f"Mean {name} goes from {sides[0]:.2f} to {sides[1]:.2f} ({trials_in_words(sides[2])})."
        )


def trials_in_words(number: int) -> str:
    return "one trial" if number == 1 else f"{number} trials"


def layer_means(maps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over the heads of each layer, by its name: `encoder layer 3`."""
    layers: dict[str, list[float]] = {}
    for values in maps:
        for name, value in values.items():
            head = Head.parse(name)
            layers.setdefault(f"{head.block} layer {head.layer}", []).append(value)
    return {name: fmean(values) for name, values in layers.items()}


def before_and_after(trials: Sequence[Stages]) -> tuple[float, float, int] | None:
    """The mean over heads before and after training, and of how many trials it is."""
    sides = [(s.get("before") or {}, s.get("after") or {}) for s in trials]
    sides = [(before, after) for before, after in sides if {*before} & {*after}]
    if not sides:
        return None
    means = [fmean(fmean(s[i][head] for head in {*s[0]} & {*s[1]}) for s in sides) for i in (0, 1)]
    return means[0], means[1], len(sides)
