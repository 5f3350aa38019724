"""Plan the memory that the work with a model takes, before any weight is loaded.

The model is built on the device "meta", which has shapes and no numbers. A run of it there shows
what a backward pass would keep; the rest follows from the shapes of the weights. Bytes for the
libraries themselves and the blocks that an allocator rounds up to are not counted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import forward, is_encoder_decoder, position_rows, token_limit
from deadhead.heads.discover import find_every_site
from deadhead.heads.layers import layers_around
from deadhead.heads.skeleton import skeleton
from deadhead.heads.summary import cache_bytes
from deadhead.rankers.loss import NUMBERS_AT_ONCE
from deadhead.shrinking.calibration import examples_on
from deadhead.shrinking.moments import BYTES as DOUBLE
from deadhead.shrinking.moments import MEMORY as OF_MOMENTS
from deadhead.shrinking.streams import stored_bytes

MEMINFO = Path("/proc/meminfo")  # Linux only
SHAPE = (1, 512)  # examples at once, tokens of each
SUMS, CHANGES = 3, 4  # in a refit: sets of sums of a layer, and matrices that solving needs


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Bytes for one model: of its weights, and the peak of each kind of work.

    weights: by precision.
    peaks: work -> the most bytes at a time, the weights included.
    cache_per_token: in the key/value cache of a model that generates.
    shape: examples at once, tokens of each.
    examples: that a refit reads.
    available: on the device; None if unknown.
    """

    weights: dict[str, int]
    peaks: dict[str, int]
    cache_per_token: int
    shape: tuple[int, int]
    examples: int
    device: str
    available: int | None

    @property
    def total(self) -> int:
        return sum(self.weights.values())

    def to_dict(self) -> dict[str, Any]:
        fits = {
            work: None if self.available is None else peak <= self.available
            for work, peak in self.peaks.items()
        }
        return {**asdict(self), "fits": fits}


def memory_plan(
    model: nn.Module | str | Path, *, batch: int = SHAPE[0], length: int | None = None,
    examples: int | None = None, device: str | torch.device = "cpu", auto: Any = None,
    dtype: Any = None,
) -> MemoryPlan:  # fmt: skip
    """The memory that work with a model takes on batches of this many examples and tokens.

    model: in memory, or the name of a saved one, whose weights are not read.
    length: by default 512, or as many as the model has positions for if that is fewer.
    examples: that a refit reads; by default as many as `deadhead shrink` draws on this device.
    """
    if isinstance(model, nn.Module):
        bare: Any = copy.deepcopy(model, {id(p): _on_meta(p) for p in _tensors(model)}).eval()
    else:
        bare, _ = skeleton(model, auto=auto, dtype=dtype)
    length = _length(bare, length)
    where = torch.device(device)
    examples = examples_on(where) if examples is None else examples
    weights: dict[str, int] = {}
    for parameter in bare.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        weights[name] = weights.get(name, 0) + parameter.nbytes
    cache = cache_bytes(bare)  # in the precision that the model has until here
    return MemoryPlan(
        weights=weights,
        peaks=_peaks(bare, batch, length, examples),
        cache_per_token=cache,
        shape=(batch, length),
        examples=examples,
        device=str(device),
        available=_available(where),
    )


def _length(model: Any, length: int | None) -> int:
    """The tokens of an example; an error if the tables of positions have too few rows for it."""
    sides = (False, True) if is_encoder_decoder(model) else (False,)
    if length is None:
        limits = [token_limit(model, decoder=side) for side in sides]
        return min([SHAPE[1], *(limit for limit in limits if limit is not None)])
    rows = [position_rows(model, decoder=side) for side in sides]
    most = min([row for row in rows if row is not None], default=length)
    if length > most:
        message = f"expected at most {most} tokens, the positions of the model, got {length}."
        raise DataError(message, f"plan for them: --on 1x{most} (length={most} in Python)")
    return length


def _tensors(model: nn.Module) -> tuple[Tensor, ...]:
    return (*model.parameters(), *model.buffers())


def _on_meta(tensor: Tensor) -> Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty


def _peaks(model: Any, batch: int, length: int, examples: int) -> dict[str, int]:
    """The peak of each kind of work. The model is in float32 afterwards."""
    total = sum(p.nbytes for p in model.parameters())
    sites = find_every_site(model)
    kept, logits = _kept_bytes(model.requires_grad_(False), batch, length)
    around = layers_around(model, sites)
    layers = max(1, len(around))
    hidden = length * _width(model) * model.dtype.itemsize  # that a layer gives for an example
    again = batch * hidden * layers + kept // layers
    stored = stored_bytes(examples * hidden, len({layer.stack for layer in around}))
    moments = [
        DOUBLE * (len(site.kept) * site.width) ** 2 for site in sites if site.kind == "heads"
    ]
    choice = min(OF_MOMENTS, sum(moments)) + 4 * max(moments, default=0)
    outs: list[Any] = [site.out for site in sites if site.kind == "heads"]
    outputs: list[Tensor] = [out.weight for out in outs if out is not None]
    solving = max((_refit_bytes(weight) for weight in outputs), default=0)
    solutions = sum(weight.nbytes for weight in outputs)
    tensors = [p.nbytes for p in model.parameters()]
    largest = max(tensors)
    peaks = {
        "rank": total + kept + logits,
        "rank --gradient-checkpointing": total + again + logits,
        "shrink: choose heads": total + kept + logits + choice,
        "shrink: refit": total + stored + solving + 2 * solutions + logits,
        "prune": total + largest,
        "prune --by-shards": 2 * largest,
    }
    trained, logits = _kept_bytes(model.float().requires_grad_(True), batch, length)
    numbers = sum(p.numel() for p in model.parameters())
    # weights, gradients and two moments of AdamW, in float32
    peaks["finetune"] = 4 * 4 * numbers + trained + logits
    return peaks


def _width(model: Any) -> int:
    config = model.config.get_text_config()
    return int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 0))


def _refit_bytes(weight: Tensor) -> int:
    outputs, inputs = weight.shape
    return DOUBLE * (SUMS * inputs * (inputs + outputs) + CHANGES * inputs * outputs)


def _kept_bytes(model: Any, batch: int, length: int) -> tuple[int, int]:
    """Count the bytes that the backward pass keeps of the forward pass, and those of the logits."""
    kept: dict[int, tuple[Any, int]] = {}  # the storages, held so that their ids stay theirs
    own = {tensor.untyped_storage()._cdata for tensor in _tensors(model)}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = (storage, storage.nbytes())
        return tensor

    embedding = model.get_input_embeddings()
    if not isinstance(embedding, nn.Embedding):
        raise UnsupportedModel(
            f"a memory plan expects a model of texts, got {type(model).__name__}.",
            "measure a batch of your own instead",
        )
    ids = torch.zeros(batch, length, dtype=torch.long, device="meta")
    with _embedded(embedding), torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        inputs = {"input_ids": ids}
        if is_encoder_decoder(model):
            inputs["decoder_input_ids"] = ids
        try:
            with torch.enable_grad(), _WithoutNumbers():
                output = getattr(forward(model, inputs), "logits", None)
        except (RuntimeError, NotImplementedError) as problem:
            raise UnsupportedModel(
                f"{type(model).__name__} cannot run without its weights: "
                f"{str(problem).partition(chr(10))[0]}",
                "load it, and measure a batch of your own",
            ) from problem
    return sum(size for _, size in kept.values()), 0 if output is None else _loss_bytes(output)


@contextmanager
def _embedded(embedding: nn.Module) -> Iterator[None]:
    """Have the embeddings of tokens require gradients, as the first gate does."""
    hook = embedding.register_forward_hook(lambda module, args, out: out.detach().requires_grad_())
    try:
        yield
    finally:
        hook.remove()


def _loss_bytes(logits: Tensor) -> int:
    if logits.dtype in (torch.float16, torch.bfloat16):  # logits, their gradient, and some rows
        return 2 * logits.nbytes + 3 * 4 * min(NUMBERS_AT_ONCE, logits.numel())
    return 4 * logits.nbytes  # logits, their logarithms, and the gradients of both


class _Attention(torch.autograd.Function):
    """A fused kernel, which keeps queries, keys, values, output and a number for each query."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, output, sums)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError("a memory plan runs no backward pass")


class _WithoutNumbers(TorchFunctionMode):
    """Answers to what a run without numbers would ask.

    The device "meta" has no fused attention, and would count the attention of all pairs. A model
    that asks whether all tokens are real, or of one text, gets the answer yes.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return _Attention.apply(*args[:3])
        if getattr(func, "__name__", "") == "__bool__" and args[0].is_meta:
            return True
        return func(*args, **(kwargs or {}))


def _available(device: torch.device) -> int | None:
    if device.type == "cuda" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    if MEMINFO.exists():  # free pages alone leave out the file cache, which gives way
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        if "MemAvailable" in lines:
            return 1024 * int(lines["MemAvailable"].split()[0])
    if "SC_AVPHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    return None
