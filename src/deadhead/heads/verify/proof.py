"""The proof that deadhead treats a model right: open gates change nothing, masked = pruned = reloaded.

Each identity comes with its twin: closing the heads must have changed the output, or the proof would
be empty. It runs in float64 on a copy, so that what is left of a difference is a mistake.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from deadhead.errors import DeadheadError
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.heads.load import load
from deadhead.heads.prune import prune
from deadhead.heads.save import save
from deadhead.layout import Head, HeadLayout

TOLERANCE = 1e-4  # of the effect; models that compute parts in float32 whatever their weights leave about 1e-6


@dataclass(frozen=True)
class Proof:
    """Largest differences in the model's outputs; `effect` is what closing the heads did."""

    effect: float
    opened: float  # with every gate open, against the untouched model
    pruned: float  # cut out, against closed
    reloaded: float  # saved and loaded, against cut out
    left_behind: float  # after the gates were taken out, against before
    generated: (
        bool | None
    )  # same tokens with cache, cut out against closed; None where the model does not generate
    removed: int

    @property
    def holds(self) -> bool:
        limit = TOLERANCE * self.effect
        exact = (
            self.left_behind == 0
            and self.opened <= limit
            and self.pruned <= limit
            and self.reloaded <= limit
        )
        return self.effect > 0 and exact and self.generated is not False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def sample(layout: HeadLayout, whole: bool) -> tuple[Head, ...]:
    """Heads that try a model: another uneven share of each layer and, if `whole`, all of each block's first layer."""
    chosen: list[Head] = []
    for block in layout.blocks:
        for number, attention in enumerate(layout.of(block)):
            groups = attention.groups
            if whole and number == 0 and layout.layers(block) > 1:
                chosen += attention.heads
            else:
                share = max(1, (len(groups) - 1) // (1 + number % 2)) if len(groups) > 1 else 0
                chosen += [
                    head
                    for i, group in enumerate(groups)
                    if i % len(groups) and i <= share
                    for head in group
                ]
    return tuple(chosen)


@torch.no_grad()
def prove(
    model: nn.Module,
    batch: Mapping[str, Any],
    heads: tuple[Head, ...],
    *,
    generate: Mapping[str, Any] | None = None,
) -> Proof:
    """Check the identities on a copy of the model, with these inputs, for these heads."""
    model = _settle(copy.deepcopy(model).eval())
    precision = _precision(model, batch, generate)
    model = model.to(precision)
    batch, generate = (
        _cast(batch, precision),
        None if generate is None else _cast(generate, precision),
    )
    whole = outputs(model, batch)
    ones = {
        b: torch.ones(discover(model).layers(b), discover(model).size(b))
        for b in discover(model).blocks
    }
    with gated(model, ones):
        opened = outputs(model, batch)
    with gated(model, closed=heads):
        masked = outputs(model, batch)
        said = _generate(model, generate)
    after = outputs(model, batch)
    prune(model, heads)
    pruned = outputs(model, batch)
    same = None if said is None else torch.equal(said, _generate(model, generate))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        again = _settle(load(folder).eval().to(whole[0].device))
    reloaded = outputs(again, batch)
    if discover(again) != discover(model):
        raise DeadheadError("the reloaded model has other heads than the pruned one.")
    return Proof(
        effect=_apart(whole, masked),
        opened=_apart(whole, opened),
        pruned=_apart(masked, pruned),
        reloaded=_apart(pruned, reloaded),
        left_behind=_apart(whole, after),
        generated=same,
        removed=len(heads),
    )


def _precision(
    model: nn.Module, batch: Mapping[str, Any], generate: Mapping[str, Any] | None
) -> torch.dtype:
    """float64, unless the model's own code is written for float32 alone."""
    try:
        trial = model.to(torch.float64)
        finite = all(bool(t.isfinite().all()) for t in outputs(trial, _cast(batch, torch.float64)))
        _generate(trial, None if generate is None else _cast(generate, torch.float64))
    except RuntimeError:
        return torch.float32
    return torch.float64 if finite else torch.float32


def _settle(model: Any) -> Any:
    """Grouped matrix products for experts exist for small floats only."""
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def _cast(batch: Mapping[str, Any], precision: torch.dtype) -> dict[str, Any]:
    return {
        k: v.to(precision) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in batch.items()
    }


def outputs(model: nn.Module, batch: Mapping[str, Any]) -> list[torch.Tensor]:
    """Every real-valued tensor the model answers with, caches aside. Seeded, for models that draw numbers."""
    torch.manual_seed(0)
    return list(_tensors(model(**batch)))


def _tensors(answer: Any) -> list[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        return [answer] if answer.is_floating_point() else []
    if isinstance(answer, Mapping):
        answer = [
            v for k, v in answer.items() if k not in ("past_key_values", "mems", "attentions")
        ]
    return (
        [t for item in answer for t in _tensors(item)] if isinstance(answer, list | tuple) else []
    )


def _apart(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    if [t.shape for t in one] != [t.shape for t in two]:
        return float("inf")
    # a model may answer -inf or nan by design; the same in both is no difference, in one alone an endless one
    gaps = [
        float((a - b).abs().masked_fill(_alike(a, b), 0).nan_to_num(float("inf")).max())
        for a, b in zip(one, two, strict=True)
        if a.numel()
    ]
    return max(gaps, default=0.0)


def _alike(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _generate(model: Any, inputs: Mapping[str, Any] | None) -> torch.Tensor | None:
    if inputs is None:
        return None
    torch.manual_seed(0)
    answer = model.generate(**inputs, max_new_tokens=6, do_sample=False, use_cache=True)
    return answer if isinstance(answer, torch.Tensor) else answer.sequences
