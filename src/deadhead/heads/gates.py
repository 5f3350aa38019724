"""The seam: gates at the input of the output projection, hung in by hooks and taken out again.

There the heads lie side by side under every attention kernel, so one multiplication there is masking
(a closed gate), soft weighting (any number) or, with a gate that asks for its gradient, a score.
`model(..., head_mask=...)` is no substitute: since transformers 5 the argument vanishes into
`**kwargs` and changes nothing, which is why a gated model refuses it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.layout import Head, HeadLayout
from deadhead.numerics import onednn_left_alone

from .discover import find_sites, layout_of
from .output_bias import mute, refuse_bias_outside
from .sites import Site

NO_MODULES = (
    "torch/nn/attention/flex_attention.py",
    "torch/_dynamo/",
    "torch/_compile.py",
)  # compiled code without hooks
OWN_COPY = (
    "give each thread a copy of its own, model = copy.deepcopy(model), or take turns with a lock"
)
HEAD_MASKS = ("head_mask", "decoder_head_mask", "cross_attn_head_mask")

Gates = torch.Tensor | Mapping[str, torch.Tensor] | Mapping[Head, "float | torch.Tensor"]


@contextmanager
def gated(
    model: nn.Module,
    gates: Gates | None = None,
    *,
    closed: Iterable[Head | str] = (),
    drop_output_bias: bool = False,
) -> Iterator[nn.Module]:
    """Run the model with some heads closed, or with any gate at every head; nothing is left behind.

    Args:
        gates: what each head's output is multiplied by. Either a tensor of layers x heads (for a model
            with one block of attention) or one per block, `{"encoder": tensor}`; with a batch axis in
            front, every example has gates of its own. Or a number per head, `{Head("encoder", 3, 7): 0.5}`;
            heads not named stay open. The columns of a tensor count heads as the model was born; those of removed heads are
            ignored.
        closed: heads whose gate is 0.
        drop_output_bias: where all gates of a layer are 0 its output bias is left out too, as `prune` does with the same argument.

    The gates belong to the thread that opened the block: another one that gates or runs the same model meanwhile
    gets an error instead of these gates. A copy made inside the block is not gated.

    Gates may ask for gradients; run `backward` inside the block when the model uses gradient
    checkpointing, which runs the forward pass again. Blocks may be nested: gates multiply.

    >>> with gated(model, closed=["encoder.3.7"]):
    ...     logits = model(**batch).logits
    """
    found = find_sites(model)
    layout = layout_of(found, {})
    readers = _readers(layout, gates, layout.check(closed))
    if drop_output_bias:
        refuse_bias_outside(found)
    with ExitStack() as stack:
        stack.enter_context(onednn_left_alone())
        stack.enter_context(_owned(model, found))
        stack.callback(model.register_forward_pre_hook(_guard(model), with_kwargs=True).remove)
        for site in found:
            read = readers.get((site.block, site.layer))
            if read is not None and site.kept:
                stack.callback(attach(site, _Gate(site, read)))
                if drop_output_bias:
                    stack.callback(mute(site, read))
        forget_compiled()
        try:
            yield model
        finally:
            forget_compiled()


def is_gated(model: nn.Module) -> bool:
    return bool(_OWNERS.get(model))


# The threads that gate a module now, innermost block last: of every gated model and each of its attention layers.
_OWNERS: WeakKeyDictionary[nn.Module, list[int]] = WeakKeyDictionary()
_LOCK = threading.Lock()


@contextmanager
def _owned(model: nn.Module, sites: Iterable[Site]) -> Iterator[None]:
    """Keep the model for this thread: gates are hooks on its modules, which all threads share."""
    modules, thread = [model, *(site.core for site in sites)], threading.get_ident()
    with _LOCK:
        if any(owner != thread for module in modules for owner in _OWNERS.get(module, ())):
            raise UnsupportedModel("another thread has gated this model.", OWN_COPY)
        for module in modules:
            _OWNERS.setdefault(module, []).append(thread)
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                _OWNERS[module].pop()


def _guard(model: nn.Module) -> Callable[[nn.Module, Any, dict[str, Any]], None]:
    """The hook of a gated model that refuses what would give wrong numbers without a word."""

    def guard(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if not _is_same(module, model):
            return
        if not torch.compiler.is_compiling():  # a compiled graph cannot ask which thread runs it
            _refuse_other_threads(module, model)
        _refuse_head_mask(kwargs)

    return guard


def _refuse_other_threads(module: nn.Module, model: nn.Module) -> None:
    owners = _OWNERS.get(model)
    if owners and threading.get_ident() not in owners and not _is_replica(module):
        raise UnsupportedModel("this model was called while another thread has gated it.", OWN_COPY)


def _is_same(module: nn.Module, hooked: nn.Module) -> bool:
    """Whether a hook was called for the module it was made for: a deep copy takes hooks along, and must not be gated."""
    return module is hooked or _is_replica(module)


def _is_replica(module: nn.Module) -> bool:
    return (
        getattr(module, "_is_replica", False) is True
    )  # of nn.DataParallel, which runs in threads of its own


def attach(site: Site, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
    """Let `change` see and replace what the output projection of an attention layer reads; returns the undoing."""
    out = site.out
    if out is not None:

        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return (change(args[0]), *args[1:]) if _is_same(module, out) else None

        return out.register_forward_pre_hook(hook).remove
    core: Any = site.core
    before = core.__dict__.get("post_attention")
    core.post_attention = _PostAttention(core, change, site.width)

    def undo() -> None:
        if before is None:
            del core.post_attention
        else:
            core.post_attention = before

    return undo


class _PostAttention:
    """Stands before XLNet's `post_attention`, which has no module of its own to hook."""

    def __init__(self, core: Any, change: Callable[[torch.Tensor], torch.Tensor], width: int):
        self.core, self.outer, self.change, self.width = core, core.post_attention, change, width

    def __call__(self, h: torch.Tensor, context: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        changed = self.change(context.flatten(-2)).unflatten(-1, (-1, self.width))
        return self.outer(h, changed, *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the layer is not gated: it gets its own method, not one that computes with our weights."""
        return partial(type(self.core).post_attention, memo[id(self.core)])


class _Gate:
    """Multiplies each head by its gate. Kept as an object so that nothing is computed until it is called."""

    def __init__(self, site: Site, read: Callable[[], torch.Tensor]):
        self.read, self.width, self.batch_axis = read, site.width, 1 if site.time_first else 0
        self.name = f"{site.block} layer {site.layer}"

    def __call__(self, context: torch.Tensor) -> torch.Tensor:
        gate = self.read().to(device=context.device, dtype=context.dtype)
        if gate.dim() == 2:
            if context.dim() < 3 or context.shape[self.batch_axis] != len(gate):
                raise self._unfit(context, len(gate))
            shape = [1] * (context.dim() - 1)
            shape[self.batch_axis] = len(gate)
            gate = gate.view(*shape, -1)
        return context * gate.repeat_interleave(self.width, dim=-1)

    def _unfit(self, context: torch.Tensor, rows: int) -> HeadError:
        got = context.shape[self.batch_axis] if context.dim() > 2 else 1
        hint = "give the gates one row per example of the batch"
        if got > rows and got % rows == 0:  # as under beam search
            hint += (
                f"; beam search and num_return_sequences run {got // rows} rows per example in "
                f"{self.name.split()[0]} layers, so repeat the rows of that block there: "
                f"gates.repeat_interleave({got // rows}, dim=0)"
            )
        return HeadError(f"gates for {rows} examples, but a batch of {got} in {self.name}.", hint)


def _readers(
    layout: HeadLayout, gates: Gates | None, closed: tuple[Head, ...]
) -> dict[tuple[str, int], Callable[[], torch.Tensor]]:
    """For each attention layer with a gate that may not be 1, a function that reads its gates now."""
    readers: dict[tuple[str, int], Callable[[], torch.Tensor]] = {}
    shut = set(closed)
    tensors, numbers = _sort(layout, gates)
    for block in layout.blocks:
        for row, attention in enumerate(layout.of(block)):
            place, heads = (block, attention.layer), attention.heads
            tensor = tensors.get(block)
            mine = {h: numbers[h] for h in heads if h in numbers}
            if tensor is None and not mine and not shut.intersection(heads):
                continue
            open_ = torch.tensor([0.0 if h in shut else 1.0 for h in heads])
            readers[place] = _reader(
                tensor, row, attention.kept, [mine.get(h) for h in heads], open_
            )
    return readers


def _reader(
    tensor: torch.Tensor | None,
    row: int,
    kept: tuple[int, ...],
    numbers: list[float | torch.Tensor | None],
    open_: torch.Tensor,
) -> Callable[[], torch.Tensor]:
    asked = any(n is not None for n in numbers)
    all_open = bool((open_ == 1).all())
    memo: dict[torch.device, torch.Tensor] = {}

    def read() -> torch.Tensor:
        gate = None
        if tensor is not None:
            gate = tensor[..., row, :]
            if kept != tuple(range(gate.shape[-1])):
                gate = gate[..., list(kept)]
        if asked:
            first = next((n for n in numbers if isinstance(n, torch.Tensor)), open_)
            values = [
                n if isinstance(n, torch.Tensor) else first.new_tensor(1.0 if n is None else n)
                for n in numbers
            ]
            own = torch.stack(values)
            gate = own if gate is None else gate * own
        if gate is None:
            return open_
        if all_open:
            return gate
        return gate * memo.setdefault(gate.device, open_.to(gate.device))

    return read


def _sort(
    layout: HeadLayout, gates: Gates | None
) -> tuple[dict[str, torch.Tensor], dict[Head, float | torch.Tensor]]:
    """Gates as given -> one tensor per block, and one number per head."""
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[Head, float | torch.Tensor] = {}
    if isinstance(gates, torch.Tensor):
        if len(layout.blocks) > 1:
            raise HeadError(
                f"one tensor of gates was given, but this model has attention in {', '.join(layout.blocks)}.",
                f"give one tensor per block: gates={{{layout.blocks[0]!r}: tensor, ...}}",
            )
        tensors[layout.blocks[0]] = gates
    elif isinstance(gates, Mapping):
        for key, value in gates.items():
            if isinstance(key, Head):
                numbers[layout.check([key])[0]] = _one_number(key, value)
            elif isinstance(value, torch.Tensor) and key in layout.blocks:
                tensors[key] = value
            else:
                raise HeadError(
                    f"gates are named by block ({', '.join(layout.blocks)}) with a tensor, or by Head with a number; met {key!r}.",
                    'write gates={"encoder": tensor} or gates={Head("encoder", 3, 7): 0.5}',
                )
    elif gates is not None:
        raise HeadError(
            f"gates must be a tensor or a mapping, met {type(gates).__name__}.",
            "to close heads, write gated(model, closed=heads)",
        )
    for block, tensor in tensors.items():
        wanted = (layout.layers(block), layout.size(block))
        if tensor.dim() not in (2, 3) or tuple(tensor.shape[-2:]) != wanted:
            raise HeadError(
                f"gates of {block} have shape {tuple(tensor.shape)}.",
                f"give layers x heads = {wanted[0]} x {wanted[1]}, with an axis for the batch in front if each example has its own",
            )
    return tensors, numbers


def _one_number(head: Head, value: Any) -> float | torch.Tensor:
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return value
    if isinstance(value, bool | int | float):
        return float(value)
    kind = (
        f"a tensor of shape {tuple(value.shape)}"
        if isinstance(value, torch.Tensor)
        else repr(value)
    )
    raise HeadError(
        f"the gate of {head} is {kind}.",
        "give each head one number; for gates of each example pass {block: tensor}",
    )


def _refuse_head_mask(kwargs: Mapping[str, Any]) -> None:
    for name in HEAD_MASKS:
        if kwargs.get(name) is not None:
            raise UnsupportedModel(
                f"{name} was passed to a gated model, but transformers 5 ignores it without a word.",
                f"pass it to the gates instead: with gated(model, {name}): ...",
            )


def forget_compiled() -> None:
    """torch.compile does not notice hooks that come or go after it has compiled: have it look again.

    Not so the kernels of flex attention, which hold no modules and take seconds to compile.
    """
    frames = sys.modules.get("torch._dynamo.convert_frame")
    if frames is None:
        return
    compiled = [
        code.co_filename.replace("\\", "/")
        for ref in frames.input_codes.seen
        if (code := ref()) is not None
    ]
    if not all(any(part in name for part in NO_MODULES) for name in compiled):
        torch.compiler.reset()
