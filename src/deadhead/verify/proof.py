"""Prove on a model that open gates change nothing, and that masked = pruned = reloaded.

For heads, for the neurons of feed-forward layers or for both, also with their mean output as a
fill. Each identity comes with its counterpart: closing the gates must change the output, and the
means must differ from zeros, or the proof would be empty. It runs in float64 on a copy, so that
any difference that remains is a mistake.
"""

import copy
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import DataError, DeadheadError, UnsupportedModel
from deadhead.forward import on_device
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.heads.load import load
from deadhead.heads.means import HeadMeans, head_means
from deadhead.heads.prune import prune
from deadhead.heads.save import save
from deadhead.layout import (
    Attention,
    Batch,
    FeedForward,
    Groups,
    Head,
    HeadLayout,
    LayerKey,
    Neurons,
)
from deadhead.numerics import seed

from .inputs import batch_for, prompt_for

TOLERANCE = (
    1e-4  # as a share of the effect; models that compute parts in float32 differ by about 1e-6
)
CACHES = ("past_key_values", "mems", "attentions")


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Largest differences in the model's outputs."""

    effect: float  # closed gates against open ones; with means as the fill, against zeros
    all_open: float  # with every gate open, against the untouched model
    pruned: float  # pruned, against closed
    reloaded: float  # saved and loaded, against pruned
    left_behind: float  # after the gates were removed, against before
    generated: bool | None  # pruned generates the same tokens as closed; None without generation
    removed: int  # heads and neurons

    @property
    def holds(self) -> bool:
        limit = TOLERANCE * self.effect
        exact = self.left_behind == 0 and max(self.all_open, self.pruned, self.reloaded) <= limit
        return self.effect > 0 and exact and self.generated is not False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def sample(layout: HeadLayout, whole: bool) -> tuple[Head, ...]:
    """Heads to try: a share of each layer and, if `whole`, all of each block's first layer."""
    chosen: list[Head] = []
    for block in layout.blocks:
        for number, attention in enumerate(layout.of(block)):
            groups = attention.groups
            if whole and number == 0 and layout.layers(block) > 1:
                chosen += attention.heads
            elif len(groups) > 1:
                share = max(1, (len(groups) - 1) // (1 + number % 2))
                chosen += [head for group in groups[1 : share + 1] for head in group]
    return tuple(chosen)


def sample_single(layout: HeadLayout) -> tuple[Head, ...]:
    """Heads to try that leave groups uneven: one of each layer whose heads share key/value heads.

    Empty if no heads share any.
    """
    shared = [a for a in layout.attentions if len(a.groups) > 1 and len(a.groups[0]) > 1]
    return tuple(a.groups[-(n % 2)][0] for n, a in enumerate(shared))


def sample_neurons(layout: HeadLayout, whole: bool) -> dict[LayerKey, tuple[int, ...]]:
    """Neurons to try: a share of each layer and, if `whole`, all of each block's first layer."""
    chosen = {}
    for block in dict.fromkeys(layer.block for layer in layout.feed_forwards):
        layers = [layer for layer in layout.feed_forwards if layer.block == block]
        for number, layer in enumerate(layers):
            emptied = whole and number == 0 and len(layers) > 1
            share = slice(None) if emptied else slice(1, None, 2 + number % 2)
            chosen[block, layer.layer] = layer.kept[share]
    return chosen


@torch.no_grad()
def prove(
    model: nn.Module,
    batch: Batch,
    heads: tuple[Head, ...] = (),
    *,
    neurons: Neurons | None = None,
    generate: Batch | None = None,
    mean_fill: bool = False,
    groups: Groups = "whole",
) -> Proof:
    """Check the identities on a copy of the model, with these inputs, for these heads and neurons.

    In float64, unless the model's own code works in float32 alone.

    mean_fill: they are filled with their mean output on these inputs.
    groups: as in `prune`.
    """
    model = _with_eager_experts(copy.deepcopy(model).eval())
    choice: dict[str, Any] = {"heads": heads, "neurons": neurons, "mean_fill": mean_fill}
    run = partial(_run_masked, model, batch, generate, **choice)
    dtype, masked = torch.float64, None
    with suppress(RuntimeError, DataError):  # such as means that are not finite
        masked = run(dtype=dtype)
    if masked is None or not all(bool(answer.isfinite().all()) for answer in masked.before):
        dtype = torch.float32
        masked = run(dtype=dtype)
    batch, generate = _cast(batch, dtype), generate and _cast(generate, dtype)
    prune(model, heads, neurons=neurons, fill=masked.means, groups=groups)
    try:
        pruned = outputs(model, batch)
        tokens: Any = generated(model, generate)
    except Exception as problem:  # the same inputs ran before
        error = f"{type(problem).__name__}: {problem}"
        raise UnsupportedModel(f"the pruned model cannot be run: {error}") from problem
    return Proof(
        effect=difference(masked.reference, masked.closed),
        all_open=difference(masked.before, masked.all_open),
        pruned=difference(masked.closed, pruned),
        reloaded=difference(pruned, outputs(_reloaded(model), batch)),
        left_behind=difference(masked.before, masked.after),
        generated=None if masked.tokens is None else torch.equal(masked.tokens, tokens),
        removed=len(heads) + sum(len([*numbers]) for numbers in (neurons or {}).values()),
    )


class _Masked(NamedTuple):
    """What a model answers before anything is cut."""

    before: list[torch.Tensor]
    all_open: list[torch.Tensor]
    reference: list[torch.Tensor]  # what closed gates are compared with, so that they do something
    closed: list[torch.Tensor]
    after: list[torch.Tensor]  # without gates again
    tokens: torch.Tensor | None  # generated with closed gates
    means: HeadMeans | None  # what fills the removed heads


def _run_masked(
    model: nn.Module,
    batch: Batch,
    generate: Batch | None,
    *,
    heads: tuple[Head, ...],
    neurons: Neurons | None,
    mean_fill: bool,
    dtype: torch.dtype,
) -> _Masked:
    """Run the model in this type: as it is, with all gates open, and with some closed."""
    model, batch = model.to(dtype), _cast(batch, dtype)
    before = reference = outputs(model, batch)
    with _all_open(model):
        all_open = outputs(model, batch)
    means = None
    if mean_fill:
        means = _means(model, batch, neurons=bool(neurons))
        with gated(model, closed=heads, neurons=neurons):
            reference = outputs(model, batch)
    with gated(model, closed=heads, neurons=neurons, fill="zero" if means is None else means):
        closed = outputs(model, batch)
        tokens = generated(model, generate and _cast(generate, dtype))
    return _Masked(
        before=before,
        all_open=all_open,
        reference=reference,
        closed=closed,
        after=outputs(model, batch),
        tokens=tokens,
        means=means,
    )


def _all_open(model: nn.Module) -> Any:
    """The model with an open gate at every head and every neuron."""
    layout = discover(model, neurons=True)
    return gated(
        model,
        {b: torch.ones(layout.layers(b), layout.size(b)) for b in layout.blocks} or None,
        neuron_gates={f.layer_key: torch.ones(f.size) for f in layout.feed_forwards},
    )


def _means(model: nn.Module, batch: Batch, *, neurons: bool) -> HeadMeans:
    """The means of all heads, and neurons; ones for a part that the batch does not run, such as
    for images.
    """
    # some models work on other rows than tokens, for which padding has no place
    unpadded = {k: torch.ones_like(v) if k == "attention_mask" else v for k, v in batch.items()}
    means = head_means(model, [unpadded], neurons=neurons)
    layout = discover(model, neurons=neurons)
    of_neurons = means.neurons and _with_ones(means.neurons, layout.feed_forwards)
    return replace(_with_ones(means, layout.attentions), neurons=of_neurons)


def _with_ones(means: HeadMeans, layers: Sequence[Attention | FeedForward]) -> HeadMeans:
    ones = {a.layer_key: torch.ones(len(a.kept), a.width) for a in layers}
    return replace(means, values={**ones, **means.values})


def _reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        loaded = _with_eager_experts(load(folder).eval().to(model.device))
    if discover(loaded, neurons=True) != discover(model, neurons=True):
        raise DeadheadError(
            "expected the reloaded model to have the heads and neurons of the pruned one."
        )
    return loaded


def _with_eager_experts(model: Any) -> Any:
    """Grouped matrix products for experts do not exist in float64."""
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def _cast(batch: Batch, dtype: torch.dtype) -> dict[str, Any]:
    return {
        k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in batch.items()
    }


def outputs(model: nn.Module, batch: Batch) -> list[torch.Tensor]:
    """Every real-valued output of the model except caches. Seeded, for models with random parts."""
    seed(0)
    return _tensors(model(**batch))


def _tensors(answer: Any) -> list[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        return [answer] if answer.is_floating_point() else []
    if isinstance(answer, Mapping):
        answer = [value for name, value in answer.items() if name not in CACHES]
    if not isinstance(answer, list | tuple):
        return []
    return [tensor for item in answer for tensor in _tensors(item)]


def difference(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The largest difference between two lists of outputs.

    A model may answer -inf or nan by design: in both it is no difference, in one an infinite one.
    """
    if [t.shape for t in some] != [t.shape for t in others]:
        return float("inf")
    largest = 0.0
    for a, b in zip(some, others, strict=True):
        if a.numel():
            same = (a == b) | (a.isnan() & b.isnan())
            gap = (a - b).abs().masked_fill(same, 0).nan_to_num(float("inf"))
            largest = max(largest, float(gap.max()))
    return largest


def generated(model: Any, inputs: Batch | None) -> torch.Tensor | None:
    """The tokens that the model generates with a cache; None without inputs."""
    if inputs is None:
        return None
    seed(0)
    answer = model.generate(**inputs, max_new_tokens=6, do_sample=False, use_cache=True)
    return answer if isinstance(answer, torch.Tensor) else answer.sequences


def prove_model(model: Any) -> dict[str, Proof]:
    """Some heads of every layer, or all of one, removed with and without means; the same for its
    neurons; then both without means; then single heads of groups that share key/value heads. What
    the model does not have is left out: where every block has one layer, none is emptied.
    """
    layout = discover(model, neurons=True)
    batch, prompt = on_device(batch_for(model), model), prompt_for(model)
    prompt = prompt and on_device(prompt, model)
    proofs: dict[str, Proof] = {}
    tried: dict[str, Any] = {}
    for case, whole in (("uneven", False), ("empty layer", True)):
        units = {"heads": sample(layout, whole), "neurons": sample_neurons(layout, whole)}
        there: dict[str, Any] = {name: unit for name, unit in units.items() if unit}
        new = {name: unit for name, unit in there.items() if unit != tried.get(name)}
        for name, unit in new.items():
            for fill in (False, True):
                title = f"{name}, {case}, means" if fill else f"{name}, {case}"
                choice: dict[str, Any] = {name: unit, "mean_fill": fill}
                proofs[title] = prove(model, batch, **choice, generate=prompt)
        if new and len(there) > 1:
            proofs[f"both, {case}"] = prove(model, batch, **there, generate=prompt)
        tried = there
    if single := sample_single(layout):
        title = "single heads, key/value heads copied"
        proofs[title] = prove(model, batch, single, generate=prompt, groups="expand")
    return proofs
