"""Attention statistics: how widely a head looks (entropy), and how sure it is (confidence).

Both look at the attention probabilities alone, before any gate, so they need no labels to mean
something, and cannot see what a head does with what it looks at: a head whose output weights are 0
scores like any other. Fused kernels never form the probabilities, so the plain implementation is
switched in for the while. Each layer's map is turned into one number per head as soon as it is there, and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DataError, UnsupportedModel, unknown_name
from deadhead.heads.discover import find_sites
from deadhead.heads.sites import Site
from deadhead.layout import Head, HeadLayout

from . import Progress, Scores
from .loss import (
    IGNORED,
    FiniteLoss,
    answer,
    attended,
    examples_of,
    losses_of,
    on_device,
    output_of,
    positions_of,
    task_of,
)

AVERAGES = ("token", "sentence")


@dataclass(frozen=True)
class Entropy:
    """How focused a head is: minus the mean entropy of its attention. `raw` holds the entropy itself, in nats."""

    average: str = "token"  # of AVERAGES: over all queries at once, or over each sentence first
    smoothing: float = (
        0.0  # the share of evenly spread attention that is mixed in (Clark et al.: 0.0001)
    )

    def __post_init__(self) -> None:
        _check(self.average)
        if not 0 <= self.smoothing < 1:
            raise DataError(f"smoothing={self.smoothing}.", "give a share from 0 up to, but not, 1")

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        def entropy(probabilities: Tensor, keys: Tensor) -> Tensor:
            if self.smoothing:
                even = keys / keys.sum(-1, keepdim=True).clamp(min=1)
                probabilities = (1 - self.smoothing) * probabilities + self.smoothing * even[
                    :, None, None
                ]
            return torch.special.entr(probabilities).sum(-1)

        raw = statistics(model, layout, batches, entropy, self.average, progress)
        return Scores({head: -value for head, value in raw.items()}, raw)


@dataclass(frozen=True)
class Confidence:
    """How sure a head is: the mean over queries of its largest attention probability."""

    average: str = "token"  # of AVERAGES

    def __post_init__(self) -> None:
        _check(self.average)

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int = 0,
        progress: Progress,
    ) -> Scores:
        raw = statistics(
            model,
            layout,
            batches,
            lambda probabilities, keys: probabilities.amax(-1),
            self.average,
            progress,
        )
        return Scores(raw, raw)


def _check(average: str) -> None:
    if average not in AVERAGES:
        raise unknown_name("average", average, AVERAGES)


Statistic = Callable[
    [Tensor, Tensor], Tensor
]  # examples x heads x queries x keys, which keys are real -> examples x heads x queries


@torch.no_grad()
def statistics(
    model: nn.Module,
    layout: HeadLayout,
    batches: Sequence[Mapping[str, Tensor]],
    statistic: Statistic,
    average: str,
    progress: Progress,
) -> dict[Head, float]:
    """The mean of a statistic over all queries that are not padding, for each head."""
    found = [site for site in find_sites(model) if site.kept]
    watch, finite = _Watch(statistic, average), FiniteLoss()
    with _plain_attention(model), ExitStack() as stack:
        for site in found:
            stack.callback(site.core.register_forward_hook(watch.at(site)).remove)
        for number, batch in enumerate(batches):
            watch.batch = on_device(batch, model)
            finite.add(_signal(model, watch.batch, answer(model, watch.batch)))
            progress(number + 1, len(batches))
    finite.check()  # before layers are missed: a map of nan is not known for a map
    return _means(layout, found, watch)


def _signal(model: nn.Module, batch: Mapping[str, Tensor], said: Any) -> Tensor:
    """A number of each example that is finite if what the model said of it is."""
    output = output_of(said)
    if output is None:
        return torch.zeros(examples_of(batch))
    if batch.get("labels") is not None and hasattr(said, "logits"):
        return losses_of(output, batch["labels"], shifted=task_of(model, batch) == "causal")
    real = positions_of(said, batch)
    return (
        (output if real is None else output.masked_fill(real[..., None] == 0, 0)).flatten(1).sum(1)
    )


def _means(layout: HeadLayout, found: list[Site], watch: _Watch) -> dict[Head, float]:
    means: dict[Head, float] = {}
    for site in found:
        if id(site) not in watch.sums:
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} ({type(site.core).__name__}) was not run, or does not show its attention probabilities.",
                "rank by gradient instead, or give inputs that use this part of the model",
            )
        values = (watch.sums[id(site)] / watch.counts[id(site)]).tolist()
        means.update(
            {
                Head(site.block, site.layer, index): value
                for index, value in zip(site.kept, values, strict=True)
            }
        )
    return {head: means[head] for head in layout}


class _Watch:
    """Looks at attention maps as they pass by."""

    def __init__(self, statistic: Statistic, average: str):
        self.statistic, self.by_sentence = statistic, average == "sentence"
        self.batch: Mapping[str, Tensor] = {}
        self.sums: dict[int, Tensor] = {}
        self.counts: dict[int, Tensor] = {}

    def at(self, site: Site) -> Callable[[nn.Module, Any, Any], Any]:
        def look(module: nn.Module, args: Any, said: Any) -> Any:
            parts = list(said) if isinstance(said, tuple) else [said]
            number = next(
                (i for i, part in enumerate(parts) if _is_map(part, len(site.kept))), None
            )
            if number is None:
                return None
            self._add(site, parts[number])
            if isinstance(said, tuple) and number == len(parts) - 1 and number > 0:
                return (
                    *parts[:number],
                    None,
                )  # nobody asked for it, and kept it would fill the memory
            return None

        return look

    def _add(self, site: Site, probabilities: Tensor) -> None:
        precise = probabilities if probabilities.dtype == torch.float64 else probabilities.float()
        queries, keys = self._real(site, probabilities)
        values = self.statistic(precise, keys.to(precise)).transpose(
            1, 2
        )  # examples x queries x heads
        weight = queries.to(precise)
        if self.by_sentence:
            weight = weight / weight.sum(1, keepdim=True).clamp(min=1)
        total, count = torch.einsum("bqh,bq->h", values, weight), weight.sum()
        self.sums[id(site)] = self.sums.get(id(site), 0) + total
        self.counts[id(site)] = self.counts.get(id(site), 0) + count

    def _real(self, site: Site, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Which queries, and which keys, of each example are no padding."""
        inputs, outputs = attended(self.batch), self._decoded()
        of_decoder = site.block in ("decoder", "cross") and outputs is not None
        queries = outputs if of_decoder and outputs is not None else inputs
        keys = outputs if of_decoder and site.block == "decoder" and outputs is not None else inputs
        return _fitting(queries, probabilities, 2), _fitting(keys, probabilities, 3)

    def _decoded(self) -> Tensor | None:
        """The positions of the decoder that count, where there is one beside the encoder."""
        mask, labels, ids = (
            self.batch.get(name)
            for name in ("decoder_attention_mask", "labels", "decoder_input_ids")
        )
        if mask is not None:
            return mask.bool()
        if labels is not None and labels.dim() == 2:
            return labels != IGNORED
        return None if ids is None else torch.ones_like(ids, dtype=torch.bool)


def _fitting(real: Tensor, probabilities: Tensor, axis: int) -> Tensor:
    """The positions that are no padding; all of them where the model counts positions of its own (images, sound)."""
    if real.shape == (probabilities.shape[0], probabilities.shape[axis]):
        return real.to(probabilities.device)
    return torch.ones(
        probabilities.shape[0],
        probabilities.shape[axis],
        dtype=torch.bool,
        device=probabilities.device,
    )


def _is_map(part: object, heads: int) -> bool:
    """Whether this is an attention map: examples x heads x queries x keys, each row a share of 1."""
    if (
        not isinstance(part, Tensor)
        or part.dim() != 4
        or part.shape[1] != heads
        or not part.is_floating_point()
    ):
        return False
    rows = (
        part[:1, :, :1].float().sum(-1)
    )  # the first query of the first example is never padding on the right
    return bool(part.amin() >= 0) and bool(((rows - 1).abs() < 0.05).all())


@contextmanager
def _plain_attention(model: Any) -> Iterator[None]:
    """Attention computed step by step, so that the probabilities exist; the former kernel afterwards."""
    configs = {
        id(m.config): m.config for m in model.modules() if getattr(m, "config", None) is not None
    }
    before = {
        key: getattr(config, "_attn_implementation_internal", None)
        for key, config in configs.items()
    }
    try:
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation("eager")
        for config in configs.values():
            config._attn_implementation_internal = "eager"
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = before[key]
