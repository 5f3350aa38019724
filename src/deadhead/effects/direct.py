"""Direct effects: what each head adds to a logit through the residual stream, past other layers.

The logits are a sum. The stream is the embeddings and what attention and feed-forward layers add to
it; what follows is linear but for norms and activations, which are frozen (linear.py). So the
gradient times the value of each part is its effect, and the effects add up to the target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.heads.discover import layout_of, search
from deadhead.heads.rows import batch_first
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, HeadLayout, LayerKey
from deadhead.rankers.batches import listed
from deadhead.rankers.gate_gradients import wide
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of, forward, on_device
from deadhead.rankers.run import frozen, refuse_resampling

from .effects import HeadAt, HeadTable
from .linear import Linear, linear
from .metrics import Metric, Tokens, logit, moved


@dataclass(frozen=True, kw_only=True)
class DirectEffects(HeadTable):
    """The mean over examples of what each part of a model adds to the target; they add up to it.

    heads: of each head, or of each head and position.
    feed_forward: of each feed-forward layer; their biases and those of attention are in `biases`.
    others: of layers whose heads or neurons deadhead skips, such as mixtures of experts, by path.
    target: the logit, or the difference of logits.
    """

    heads: Mapping[HeadAt, float] = field(repr=False)
    feed_forward: Mapping[LayerKey, float] = field(repr=False)
    others: Mapping[str, float] = field(repr=False)
    embeddings: float
    biases: float
    target: float
    examples: int
    layout: HeadLayout

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each part: heads, feed-forward layers, embeddings and biases."""
        layers = {f"{b}.{n}.feed_forward": value for (b, n), value in self.feed_forward.items()}
        rest = {**layers, **self.others, "embeddings": self.embeddings, "biases": self.biases}
        parts = [(str(head), position, v) for (head, position), v in self.heads.items()]
        parts += [(name, None, value) for name, value in rest.items()]
        return [dict(zip(("part", "position", "effect"), part, strict=True)) for part in parts]

    def by_head(self) -> dict[Head, float]:
        """The effect of each head, at all positions together."""
        sums: defaultdict[Head, float] = defaultdict(float)
        for (head, _), value in self.heads.items():
            sums[head] += value
        return dict(sums)

    @property
    def title(self) -> str:
        rest = self.target - sum(self.heads.values())
        return f"direct effect of each head on {self.target:.4g} (all other parts {rest:.4g})"


def direct_effects(
    model: nn.Module,
    batches: Batch | Iterable[Batch],
    target: Metric | Tokens,
    *,
    positions: bool = False,
    progress: bool | Progress = True,
) -> DirectEffects:
    """What each head adds to a logit, or to a difference of logits, past all other layers.

    Args:
        batches: a batch ready for `model(**batch)`, or a list of batches.
        target: the number of a token (or class), for all examples or one for each: its logit at
            the last real token. Or a function of the outputs and the batch that gives one number
            per example and is linear in the logits, such as `logit(token, position)` or
            `logit_difference(answer, wrong)`; a probability is not.
        positions: give the effect of each head from each position of the padded row, instead of
            their sum. In a language model the predicting position alone has a direct effect.
        progress: show a bar in a terminal or a notebook; or a function that is called with the
            number of batches done and their total.

    Heads, feed-forward and other layers, embeddings and biases add up to the target, but for
    rounding: norms keep the scale, and activations on the way the ratio, that they have in this
    run. A model in which they do not add up is refused. Heads that only other layers read, such as
    those of the encoder of a translation model, have 0.

    >>> effects = direct_effects(model, batch, logit_difference(mary, john))
    >>> effects.by_head()
    """
    refuse_resampling(model)
    metric = PerExample(target if callable(target) else logit(target), "target")
    data = listed("batches", batches)
    sites, skipped = search(model, "heads")
    sums = _Sums(positions=positions)
    with (
        frozen(model, seed=0),
        linear(model, sites, skipped) as run,
        reported(progress, "batches") as count,
    ):
        for number, batch in enumerate(data):
            sums.add(model, run, batch, metric)
            count(number + 1, len(data))
    examples = sum(map(examples_of, data))
    means: dict[str, Any] = {
        name: {part: value / examples for part, value in sums.of[name].items()}
        for name in ("whole", "heads", "feed_forward", "others")
    }
    return DirectEffects(
        **means.pop("whole"),
        **means,
        examples=examples,
        layout=layout_of([site for site in sites if site.kind == "heads"]),
    )


class _Sums:
    """Sums over examples: table -> part -> effect."""

    def __init__(self, *, positions: bool):
        self.positions = positions
        self.lengths: dict[str, int] = {}  # rows of each block
        self.of: defaultdict[str, defaultdict[Any, float]]
        self.of = defaultdict(lambda: defaultdict(float))
        for name in ("embeddings", "biases", "target"):
            self.of["whole"][name] = 0.0

    def add(self, model: nn.Module, run: Linear, batch: Batch, metric: PerExample) -> None:
        run.begin()
        with run.mode:
            outputs = forward(model, on_device(batch, model))
        target = metric(outputs, moved(batch, model)).sum()
        if not target.requires_grad:
            raise UnsupportedModel(
                "the target does not depend on the residual stream of the model.",
                "check that it comes from the logits, undetached",
            )
        leaves = [*run.leaves, *(("biases", bias) for bias in run.biases)]
        values = [value for _, value in leaves]
        gradients = torch.autograd.grad(target, values, allow_unused=True, materialize_grads=True)
        total = size = 0.0
        for (part, value), gradient in zip(leaves, gradients, strict=True):
            effects = gradient * value.detach()
            effect = float(wide(effects).sum())
            total, size = total + effect, size + float(wide(effects).abs().sum())
            if isinstance(part, Site) and part.kind == "heads":
                self._add_heads(part, effects)
            elif isinstance(part, Site):
                self.of["feed_forward"][part.layer_key] += effect
            else:
                self.of["whole" if part in self.of["whole"] else "others"][part] += effect
        exact = float(wide(target.detach()))
        self.of["whole"]["target"] += exact
        _check(model, total, exact, size, target.dtype)

    def _add_heads(self, site: Site, effects: Tensor) -> None:
        rows = wide(batch_first(site, effects)).unflatten(-1, (-1, site.width)).sum(-1)
        if not self.positions:
            rows = rows.flatten(0, -2)[:, None]
        elif rows.dim() != 3 or self.lengths.setdefault(site.block, rows.shape[1]) != rows.shape[1]:
            raise DataError(
                f"positions expect rows of one length, got {tuple(rows.shape[:-1])} in "
                f"{site.block} layer {site.layer}.",
                "pad all batches to one length, or leave positions out",
            )
        for position, row in enumerate(rows.sum(0).tolist()):
            for index, value in zip(site.kept, row, strict=True):
                key = Head(*site.layer_key, index), position if self.positions else None
                self.of["heads"][key] += value


def _check(model: nn.Module, total: float, value: float, size: float, dtype: torch.dtype) -> None:
    """Raise an error unless the effects add up: else the stream or the target has other parts."""
    rounding = max(torch.finfo(kind).eps for kind in (dtype, torch.float32)) ** 0.75
    # not "more than": a sum may be nan
    if not abs(total - value) <= rounding * (size + abs(value)):
        raise UnsupportedModel(
            f"the effects add up to {total:.6g}, but the target is {value:.6g}: the stream of "
            f"{type(model).__name__} has parts beside attention, feed-forward layers, embeddings "
            "and biases, or the target is not linear in the logits.",
            "give a logit or a difference of logits as the target; for other models measure "
            "effects with patch_effects, or rank by ablation",
        )
