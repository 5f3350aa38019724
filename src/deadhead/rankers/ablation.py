"""Ablation: the exact change when one head alone is closed. The yardstick for all other methods.

Closing a head of layer l leaves everything below l as it was, so each batch is run once and
remembered, and the model is then run from layer l upwards, with the batch repeated and another head
closed in every copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deadhead.errors import DataError, unknown_name
from deadhead.heads.discover import find_sites
from deadhead.heads.gates import attach
from deadhead.heads.sites import Site
from deadhead.layout import Head, HeadLayout

from . import Progress, Scores
from .loss import (
    IGNORED,
    LOSS,
    FiniteLoss,
    answer,
    attended,
    examples_of,
    losses_said,
    on_device,
    task_of,
)
from .replay import Replay, repeated, replaying

MEASURES = ("loss", "accuracy")
TOKENS = {"cpu": 1024, "cuda": 65536}  # the CPU's was measured; a GPU only has to be kept busy


@dataclass(frozen=True)
class Ablation:
    """How much the loss rises, or the accuracy falls, when the head is closed and all others stay."""

    measure: str = "loss"  # of MEASURES; accuracy is that of labelled tokens
    tokens: int | None = (
        None  # at most so many (padding counted) in one pass, as long as one copy of the batch fits
    )

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise unknown_name("measure", self.measure, MEASURES)
        if self.tokens is not None and self.tokens < 1:
            raise DataError(
                f"tokens={self.tokens}.", "give a whole number above 0, or leave it out"
            )

    @torch.no_grad()
    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        found = [site for site in find_sites(model) if _scored(site, layout)]
        budget = self.tokens or TOKENS.get(next(model.parameters()).device.type, TOKENS["cuda"])
        finite, steps = FiniteLoss(), len(found) * len(batches)
        whole: list[Tensor] = []
        closed: dict[Head, list[Tensor]] = {head: [] for head in layout}
        with replaying(model) as replay:
            for number, batch in enumerate(batches):
                batch = on_device(batch, model)
                with replay.record(examples_of(batch)):
                    full = _measures(model, batch, 1)
                finite.add(full[0, 0])
                whole.append(full[0].sum(1))
                for step, site in enumerate(found):
                    for heads, values in _without_each(model, batch, site, layout, replay, budget):
                        for head, value in zip(heads, values.sum(2), strict=True):
                            closed[head].append(value)
                    progress(number * len(found) + step + 1, steps)
        finite.check()
        return self._finished(
            _means(whole, batches), {head: _means(sums, batches) for head, sums in closed.items()}
        )

    def _finished(
        self, whole: tuple[float, float], closed: Mapping[Head, tuple[float, float]]
    ) -> Scores:
        by_loss = {head: loss - whole[0] for head, (loss, _) in closed.items()}
        by_accuracy = {head: whole[1] - accuracy for head, (_, accuracy) in closed.items()}
        if math.isnan(whole[1]):  # measured by a loss without labels
            return Scores(by_loss, details={"loss": whole[0]})
        other = by_accuracy if self.measure == "loss" else by_loss
        details = {
            "loss": whole[0],
            "accuracy": whole[1],
            "fall in accuracy" if self.measure == "loss" else "rise in loss": {
                str(head): value for head, value in other.items()
            },
        }
        return Scores(by_loss if self.measure == "loss" else by_accuracy, details=details)


def _scored(site: Site, layout: HeadLayout) -> list[int]:
    """Of the heads a layer has left, the columns of those to score."""
    return [
        column
        for column, index in enumerate(site.kept)
        if Head(site.block, site.layer, index) in layout
    ]


def _without_each(
    model: nn.Module,
    batch: Mapping[str, Tensor],
    site: Site,
    layout: HeadLayout,
    replay: Replay,
    budget: int,
) -> Iterator[tuple[list[Head], Tensor]]:
    """Heads of one layer, and the measures of the batch with each of them closed."""
    columns = _scored(site, layout)
    labels, size = batch.get("labels"), examples_of(batch)
    positions = max(
        attended(batch).shape[1], labels.shape[1] if labels is not None and labels.dim() == 2 else 1
    )
    at_once = max(1, min(len(columns), budget // (size * positions)))
    for start in range(0, len(columns), at_once):
        chosen = columns[start : start + at_once]
        undo = attach(site, _Closed(site, chosen, size))
        try:
            with replay.start_at((site.block, site.layer), len(chosen)):
                values = _measures(model, repeated(batch, len(chosen)), len(chosen))
        finally:
            undo()
        yield [Head(site.block, site.layer, site.kept[column]) for column in chosen], values


class _Closed:
    """Closes another head in every copy of the batch."""

    def __init__(self, site: Site, columns: list[int], examples: int):
        self.columns, self.examples, self.width, self.axis = (
            columns,
            examples,
            site.width,
            1 if site.time_first else 0,
        )

    def __call__(self, context: Tensor) -> Tensor:
        copies = context.transpose(0, self.axis).clone()
        for copy, column in zip(copies.tensor_split(len(self.columns)), self.columns, strict=True):
            copy[..., column * self.width : (column + 1) * self.width] = 0
        return copies.transpose(0, self.axis)


def _measures(model: nn.Module, batch: Mapping[str, Tensor], copies: int) -> Tensor:
    """Copies x (loss, right tokens) x examples; nothing is right or wrong where the loss needs no labels."""
    said = answer(model, batch)
    losses = losses_said(model, batch, said)
    right = torch.full_like(losses, math.nan)
    if LOSS not in batch:
        logits, labels = said.logits, batch["labels"]
        if task_of(model, batch) == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        right = (
            ((logits.argmax(-1) == labels) & (labels != IGNORED)).reshape(len(labels), -1).sum(1)
        )
    precise = torch.float32 if losses.device.type == "mps" else torch.float64
    return (
        torch.stack([losses.to(precise), right.to(precise)])
        .unflatten(1, (copies, -1))
        .transpose(0, 1)
    )


def _means(sums: list[Tensor], batches: Sequence[Mapping[str, Tensor]]) -> tuple[float, float]:
    """The mean loss of an example and the accuracy of a labelled token, from sums over each batch."""
    loss, right = torch.stack(sums).sum(0).tolist()
    labelled = sum(int((b["labels"] != IGNORED).sum()) for b in batches if LOSS not in b)
    return loss / sum(map(examples_of, batches)), right / labelled if labelled else math.nan
