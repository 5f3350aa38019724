"""How far the smaller model is from the whole one, on your texts and on the guard, by length.

Calibration on narrow text damages a model elsewhere, and losses on such text do not show it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from deadhead.embedding import embedder_of
from deadhead.errors import UnsupportedModel
from deadhead.forward import forward, on_device
from deadhead.layout import Batch
from deadhead.rankers.label_free import LabelFree, label_free
from deadhead.rankers.loss import TARGET, attended

from .refitting import RefitPlan

LENGTHS = (0, 16, 64, 256)  # a class of texts is longer than one of these, in tokens
LEAST = 8  # texts of a class; fewer join the class before
MUCH = 3.0  # times as far as your texts, and
MORE = 0.05  # by so much further, is worth a warning


@dataclass(frozen=True, kw_only=True)
class TextDistance:
    """The mean distance of texts of a length from what the whole model gives."""

    texts: str  # "yours" or "guard"
    above: int  # tokens that each of them exceeds
    up_to: int | None  # tokens; None: there is no limit
    examples: int
    distance: float

    @property
    def name(self) -> str:
        """Their lengths in words."""
        if self.up_to is None:
            return f"longer than {self.above} tokens" if self.above else "of any length"
        if not self.above:
            return f"of up to {self.up_to} tokens"
        return f"of {self.above + 1} to {self.up_to} tokens"


def text_distances(
    whole: nn.Module,
    model: nn.Module,
    plan: RefitPlan,
    yours: Sequence[Batch],
    guard: Sequence[Batch],
) -> tuple[TextDistance, ...]:
    """Compare the whole model with what the model will be by the plan.

    Gives nothing for models without text or outputs.
    """
    if not all("input_ids" in batch for batch in (*yours, *guard)):
        return ()
    loss = label_free(whole, "self" if embedder_of(whole) is None else "embedding")
    try:
        return tuple(
            row
            for texts, batches in (("yours", yours), ("guard", guard))
            for row in _by_length(texts, _distances(whole, model, plan, loss, batches))
        )
    except UnsupportedModel:
        return ()


@torch.no_grad()
def _distances(
    whole: nn.Module, model: nn.Module, plan: RefitPlan, loss: LabelFree, batches: Sequence[Batch]
) -> Iterator[tuple[int, float]]:
    """The tokens of each text, and its distance."""
    for batch in batches:
        moved = on_device(batch, model) | {TARGET: loss.target(whole, batch)}
        with plan.tried():
            distances = loss.distance(forward(model, moved), moved)
        yield from zip(attended(batch).sum(1).tolist(), distances.tolist(), strict=True)


def _by_length(texts: str, distances: Iterator[tuple[int, float]]) -> list[TextDistance]:
    classes: list[list[float]] = [[] for _ in LENGTHS]
    for tokens, distance in distances:
        classes[sum(tokens > length for length in LENGTHS[1:])].append(distance)
    spans: list[tuple[int, int | None, list[float]]] = []
    for above, up_to, values in zip(LENGTHS, (*LENGTHS[1:], None), classes, strict=True):
        if not values:
            continue
        if spans and (len(values) < LEAST or len(spans[-1][2]) < LEAST):
            above, _, before = spans.pop()
            values = before + values
        spans.append((above, up_to, values))
    return [
        TextDistance(
            texts=texts, above=above, up_to=up_to, examples=len(values),
            distance=sum(values) / len(values),
        )
        for above, up_to, values in spans
    ]  # fmt: skip


def mean_distance(rows: Sequence[TextDistance], texts: str) -> float:
    """The mean over all texts that are yours, or of the guard."""
    own = [row for row in rows if row.texts == texts]
    return sum(row.distance * row.examples for row in own) / sum(row.examples for row in own)


def warning_of(rows: Sequence[TextDistance], outputs: str, *, fitted: bool = True) -> str | None:
    """A sentence if some texts suffer much more than yours.

    outputs: what is compared. fitted: whether a part of the guard was fitted to.
    """
    if not rows:
        return None
    yours = mean_distance(rows, "yours")
    most = max(MUCH * yours, yours + MORE)
    bad = [row for row in rows if row.distance > most]
    if not bad:
        return None
    worst = max(bad, key=lambda row: row.distance)
    guard = [row for row in rows if row.texts == "guard"]
    which, distance = f"Texts {worst.name}", worst.distance
    if worst.texts == "guard" and all(row in bad for row in guard):
        which, distance = "General texts", mean_distance(rows, "guard")
    unguarded = worst.texts == "guard" and not fitted
    hint = "Leave out --no-guard, or add" if unguarded else "Add"
    return (
        f"{which}: {outputs} differ by {distance:.2f}, texts like yours {yours:.2f}. "
        f"{hint} such texts with --text, or to the data of the task."
    )
