"""What every ranking method is: a frozen dataclass with its options, its facts and one call.

A subclass needs no torch to be imported, so recipes and help can read its options; it imports torch
in its call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deadhead.display.progress import Progress as Progress
from deadhead.display.progress import silent
from deadhead.layout import Batch, Head, HeadLayout
from deadhead.registry.options import Checked

if TYPE_CHECKING:
    from torch import nn

    from deadhead.heads.streaming import StreamingOutputs


HEADS = 144  # of a model of base size, for estimates of time
# What replaces the output of a closed head: nothing, or its mean over the tokens of the data.
Fill = Literal["zero", "mean"]


@dataclass(frozen=True, kw_only=True)
class RankerInputs:
    """A model in evaluation mode with frozen weights, the heads to score, and the data.

    The batches are ready for `model(**batch)`, with their labels.
    """

    model: nn.Module
    layout: HeadLayout
    batches: Sequence[Batch]
    seed: int = 0
    streaming: StreamingOutputs | None = None  # what fills closed heads, if it replaces their fill
    progress: Progress = silent

    def counted(self) -> Iterator[Batch]:
        """The batches, each reported as done when the next one is asked for."""
        for number, batch in enumerate(self.batches):
            yield batch
            self.progress(number + 1, len(self.batches))


class Scores(dict[Head, float]):
    """Scores with `raw` values before scaling, and `details` fit for JSON.

    A ranker without either may return a plain dict.
    """

    def __init__(
        self,
        scores: Mapping[Head, float],
        raw: Mapping[Head, float] | None = None,
        details: Mapping[str, Any] | None = None,
    ):
        super().__init__(scores)
        self.raw, self.details = raw, dict(details or {})


class Ranker(Checked, ABC):
    """Base of the ranking methods. Fields are options; class variables are facts about the method.

    reads: what it must know of the data: its `labels`; labels `or a loss` that replaces them; or
        only the `inputs`.
    differentiates: its scores are gradients at open gates, where a distance has none (label_free).
    raw_adds_up: its raw values are sums over the data, so those of different data can be added.
    takes_fill: closed heads can be filled from the run of corrupt batches, or see a window alone.
    """

    reads: ClassVar[Literal["labels", "labels or a loss", "inputs"]] = "labels or a loss"
    differentiates: ClassVar[bool] = False
    raw_adds_up: ClassVar[bool] = False
    takes_fill: ClassVar[bool] = False

    @property
    def in_file_order(self) -> bool:
        """Whether the order of the data matters, so that it must stay that of the file."""
        return False

    @property
    def probed(self) -> bool:
        """Whether it measures a distance along random directions (label_free), not as it is."""
        return self.differentiates

    @property
    def passes(self) -> float:
        """About how many forward passes over the data it takes; a backward pass counts as two."""
        return 1.0 if self.reads == "inputs" else 3.0

    @abstractmethod
    def __call__(self, inputs: RankerInputs) -> Mapping[Head, float]:
        """One number for each head of the layout, higher meaning more important.

        The model is left as it was.
        """
