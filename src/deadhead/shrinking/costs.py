"""The costs of the layers of a model: multiply-accumulates and parameters for each number of units.

A unit is removed as one: a feed-forward neuron, or a head with all heads that share its keys and
values. One run of the model counts the rows that every matrix reads; the rest follows from the
shapes of the weights. Attention counts as computed over all pairs of positions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DeadheadError
from deadhead.forward import forward, is_encoder_decoder, on_device, token_limit
from deadhead.heads.cut import computed_heads
from deadhead.heads.parts import Part, outputs_of
from deadhead.heads.site import Site
from deadhead.layout import Batch, SiteKey

InputShape = tuple[int, int]  # examples, tokens of each
Prices = dict[SiteKey, Sequence[float]]  # entry k: the cost of a layer with k units left

DEFAULT_SHAPE = (32, 128)
PER_TOKEN = ("inputs_embeds", "bbox")  # names of inputs with several numbers for every token


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of the layers with each number of units left, and of the whole model."""

    macs: Prices  # for one run on `shape`
    parameters: Prices
    new_biases: Mapping[
        SiteKey, int
    ]  # numbers in the bias that a refit adds to an output projection
    model_parameters: int  # in the whole model, embeddings included
    shape: InputShape

    def of(self, prices: Prices, removed: Mapping[SiteKey, int] | None = None) -> float:
        """The sum over all layers after this many units of each layer are removed."""
        left = {place: len(table) - 1 for place, table in prices.items()}
        for place, count in (removed or {}).items():
            left[place] -= count
        return sum(prices[place][count] for place, count in left.items())


@dataclass(frozen=True, kw_only=True)
class Full:
    """The full model, which the targets count from."""

    model: nn.Module
    macs: float
    parameters: int
    megabytes: float  # its weights as they are, or in the precision that they will have
    seconds: float = 0.0  # of a run, where a target is a speed-up

    @classmethod
    def of(cls, model: nn.Module, costs: Costs, precision: torch.dtype | None = None) -> "Full":
        """Count a model. precision: of its weights in a folder."""
        return cls(
            model=model,
            macs=costs.of(costs.macs),
            parameters=sum(weight.numel() for weight in model.parameters()),
            megabytes=megabytes(model, precision),
        )

    def share(self, name: str, amount: Fraction | int) -> float:
        """The share that remains by a target."""
        if name == "speedup":
            return 1 / float(amount)
        return float(amount) / (self.megabytes if name == "megabytes" else 1)

    def amount(self, name: str) -> float:
        """What there is of what a target counts."""
        return {"macs": self.macs, "speedup": self.seconds}.get(name, self.parameters)


def megabytes(model: nn.Module, precision: torch.dtype | None = None) -> float:
    """The megabytes of the weights of a model, as they are or in another precision."""
    size = 0
    for weight in model.parameters():
        written = weight.dtype if precision is None or not weight.is_floating_point() else precision
        size += weight.numel() * written.itemsize
    return size / 1e6


def costs(model: nn.Module, sites: Iterable[Site], batch: Batch, on: InputShape) -> Costs:
    """The costs of the layers at these sites. batch: any batch the model can read.

    The model must be in evaluation mode.
    """
    sites = [*sites]
    feed = sample(model, batch, (1, on[1]))
    rows = _rows(model, sites, feed)
    return Costs(
        macs={site.key: [on[0] * n for n in _table(site, rows)] for site in sites},
        parameters={site.key: _table(site, None) for site in sites},
        new_biases={site.key: _new_bias(site) for site in sites},
        model_parameters=sum(p.numel() for p in model.parameters()),
        shape=on,
    )


def units_left(site: Site) -> int:
    """Count the units of a layer: neurons, heads, or groups of heads with the same keys."""
    return len(site.groups)


def _new_bias(site: Site) -> int:
    """The size of the bias that a refit would add; XLNet's projections are never refitted."""
    if site.out is None or getattr(site.out, "bias", None) is not None:
        return 0
    return outputs_of(site.out)


def shape_for(model: nn.Module, on: InputShape | None) -> InputShape:
    """The shape of the inputs to count and time; by default one that the model can read."""
    longest = token_limit(model)
    if on is None:
        batch, length = DEFAULT_SHAPE
        return batch, length if longest is None else min(length, longest)
    if (
        not isinstance(on, list | tuple)
        or len(on) != 2
        or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in on)
    ):
        hint = "for instance on=(32, 128), or --on 32x128"
        raise DeadheadError(f"`on` expects examples and tokens of each, got {on!r}.", hint)
    batch, length = on
    if longest is not None and length > longest:
        raise DeadheadError(
            f"`on` expects at most the {longest} positions of this model, got {length} tokens.",
            f"use on=({batch}, {longest}) or --on {batch}x{longest}, or fewer tokens",
        )
    return batch, length


def sample(model: nn.Module, batch: Batch, shape: InputShape) -> dict[str, Any]:
    """The first example of a batch, repeated to a shape and without padding.

    Texts get that many tokens; images and sound features keep their size.
    """
    rows, length = shape
    left_out = {} if is_encoder_decoder(model) else {"labels"}
    text = any(batch.get(name) is not None for name in ("input_ids", "inputs_embeds"))
    sized = {}
    for name, value in batch.items():
        if isinstance(value, Tensor) and value.dim() and name not in left_out:
            # the mask of a sound has the size of the sound
            longest = length if text or name != "attention_mask" else None
            row = _row(name, value[:1], longest)
            sized[name] = row.repeat(rows, *[1] * (row.dim() - 1))
    return on_device(sized, model)


def _row(name: str, row: Tensor, length: int | None) -> Tensor:
    """Resize one example to this many tokens, unpadded; None: keep its size."""
    numbers = row.dim() == 2 and not row.is_floating_point()  # one for every token
    if length is not None and (numbers or name.endswith(PER_TOKEN)):
        first = row.shape[1]
        row = row.repeat(1, -(-length // first), *[1] * (row.dim() - 2))[:, :length]
        if name == "global_attention_mask":  # or the copies of the first token were global too
            row[:, first:] = 0
    if numbers and name.endswith("attention_mask") and name != "global_attention_mask":
        return torch.ones_like(row)
    # the decoder reads labels: all of them are tokens
    return row.clamp(min=0) if numbers and name == "labels" else row


Call = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]


@torch.no_grad()
def run_watched(model: nn.Module, feed: Batch, watches: Mapping[nn.Module, Call]) -> None:
    """Run the model; each of these modules reports the arguments of every call of it."""
    with ExitStack() as stack:
        for module, watch in watches.items():
            stack.enter_context(module.register_forward_pre_hook(watch, with_kwargs=True))
        forward(model, feed)


def _rows(model: nn.Module, sites: Sequence[Site], feed: Batch) -> dict[int, list[int]]:
    """Count the rows that each part reads in a run, by the id of its module; one entry per call."""
    calls: dict[int, list[int]] = {}

    def count(first: Part, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        calls.setdefault(id(first.module), []).append(next(tensors).shape[:-1].numel())

    watches = {
        use.parts[role].module: partial(count, first)
        for site in sites
        for use in site.uses
        for role, first in site.parts.items()
    }
    run_watched(model, feed, watches)
    return calls


def _table(site: Site, rows: Mapping[int, list[int]] | None) -> list[int]:
    """The cost of a layer for each number of units left: its MACs by `rows`, or its parameters.

    Units of a layer are alike, so that the cost is linear from the first unit on. A layer without
    units is apart: keys that all heads share leave with the last of them.
    """
    count = units_left(site)
    if not count:
        return [_cost(site, 0, rows)]
    nothing, first, all_of_them = (_cost(site, k, rows) for k in (0, 1, count))
    each = (all_of_them - first) // max(1, count - 1)
    return [nothing, *(first + each * k for k in range(count))]


def _cost(site: Site, units: int, rows: Mapping[int, list[int]] | None) -> int:
    kept = site.first(units)
    keys = site.keys_of(kept)
    if rows is None:
        return sum(_numbers(part, kept, keys) for part in site.parts.values())
    if site.kind == "heads" and not computed_heads(site, len(kept)):
        return 0
    total = sum(
        sum(rows.get(id(part.module), ())) * _numbers(part, kept, keys, matrices=True)
        for part in site.parts.values()
        if not isinstance(part.module, nn.Embedding)
    )
    return total + (_products(site, len(kept), rows) if site.kind == "heads" else 0)


def _numbers(
    part: Part, heads: tuple[int, ...], keys: tuple[int, ...], *, matrices: bool = False
) -> int:
    """Count the numbers of a part that keeps these heads and keys; or only of its matrices."""
    present = len(part.present(heads, keys))
    tensors = ((getattr(part.module, name), axis) for name, axis in part.tensors)
    return sum(
        present * (tensor.numel() // max(1, tensor.shape[axis]))
        for tensor, axis in tensors
        if tensor.dim() > 1 or not matrices
    )


def _products(site: Site, heads: int, rows: Mapping[int, list[int]]) -> int:
    """The MACs of queries times keys, and of attention times values, for a batch of 1."""
    queries = next((part for part in site.parts.values() if "q" in part.rows), None)
    keys = next((part for part in site.parts.values() if "k" in part.rows), queries)
    if queries is None or keys is None:
        return 0
    pairs = sum(
        q * k
        for q, k in zip(
            rows.get(id(queries.module), ()), rows.get(id(keys.module), ()), strict=False
        )
    )
    width = queries.rows["q"].shape[1] + site.width
    return int(pairs * width * computed_heads(site, heads))
