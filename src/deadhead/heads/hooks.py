"""Hooks at the input of the output projections of a model, which belong to one thread and one run.

There the heads are side by side under every attention kernel. `attach` puts a function at one
layer; `hooked` reserves the model meanwhile and refuses calls that would give wrong numbers.
`model(..., head_mask=...)` is such a call: since transformers 5 the argument disappears in
`**kwargs` and changes nothing.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from deadhead.errors import UnsupportedModel
from deadhead.numerics import onednn_left_alone

from .site import Site

# compiled code without hooks
NO_MODULES = ("torch/nn/attention/flex_attention.py", "torch/_dynamo/", "torch/_compile.py")
OWN_COPY = "give each thread its own copy, model = copy.deepcopy(model), or use a lock"
HEAD_MASKS = ("head_mask", "decoder_head_mask", "cross_attn_head_mask")


@contextmanager
def hooked(model: nn.Module, sites: Iterable[Site]) -> Iterator[ExitStack]:
    """Reserve the model for hooks of this thread; gives the stack for their undo functions."""
    with ExitStack() as stack:
        stack.enter_context(onednn_left_alone())
        stack.enter_context(_owned(model, sites))
        stack.callback(model.register_forward_pre_hook(_guard(model), with_kwargs=True).remove)
        forget_compiled()
        stack.callback(forget_compiled)
        yield stack


def check_no_gates(model: nn.Module, action: str) -> None:
    """Raise an error inside of a `with gated(...)` block. action: what to do behind it."""
    if _OWNERS.get(model):
        raise UnsupportedModel(
            "expected a model without gates, got one inside a `with gated(...)` block.",
            f"{action} after the block",
        )


_RESAMPLED: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # how many blocks


def is_resampled(model: nn.Module) -> bool:
    """Whether a block fills heads of this model with those of other examples of the batch."""
    return bool(_RESAMPLED.get(model))


@contextmanager
def resampled(model: nn.Module) -> Iterator[None]:
    _RESAMPLED[model] = _RESAMPLED.get(model, 0) + 1
    try:
        yield
    finally:
        _RESAMPLED[model] -= 1


# The threads that gate a model and its attention layers now, innermost block last.
_OWNERS: WeakKeyDictionary[nn.Module, list[int]] = WeakKeyDictionary()
_LOCK = threading.Lock()


@contextmanager
def _owned(model: nn.Module, sites: Iterable[Site]) -> Iterator[None]:
    """Reserve the model for this thread: gates are hooks, which all threads share."""
    modules, thread = [model], threading.get_ident()
    modules += [use.core for site in sites for use in site.uses]
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
    """The hook of a gated model that refuses calls which would give wrong numbers."""

    def guard(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if not is_same(module, model):
            return
        # neither a replica nor a compiled graph knows its thread
        if not torch.compiler.is_compiling() and not is_replica(module):
            owners = _OWNERS.get(model)
            if owners and threading.get_ident() not in owners:
                text = "this model was called while another thread has gated it."
                raise UnsupportedModel(text, OWN_COPY)
        for name in HEAD_MASKS:
            if kwargs.get(name) is not None:
                raise UnsupportedModel(
                    f"a gated model expects no {name}, got one; transformers 5 would ignore it.",
                    f"pass it to the gates instead: with gated(model, {name}): ...",
                )

    return guard


def is_same(module: nn.Module, hooked: nn.Module) -> bool:
    """Whether a hook runs for its own module: a deep copy has the hooks too, but is not gated."""
    return module is hooked or is_replica(module)


def is_replica(module: nn.Module) -> bool:
    """Whether nn.DataParallel made this copy, which runs in a thread of its own."""
    return getattr(module, "_is_replica", False) is True


def attach(
    site: Site, change: Callable[[torch.Tensor], torch.Tensor], *, first: bool = False
) -> Callable[[], None]:
    """Pass the input of a layer's output projection through `change`; returns the undo function.

    first: before all changes that are attached already.
    """
    undo = ExitStack()
    for use in site.uses:
        undo.callback(_attach(use, change, first))
    return undo.close


def _attach(
    site: Site, change: Callable[[torch.Tensor], torch.Tensor], first: bool
) -> Callable[[], None]:
    out = site.out
    if out is not None:

        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return (change(args[0]), *args[1:]) if is_same(module, out) else None

        return out.register_forward_pre_hook(hook, prepend=first).remove
    core: Any = site.core
    wrapper = core.__dict__.get("post_attention")
    if not isinstance(wrapper, _PostAttention):
        wrapper = core.post_attention = _PostAttention(core, site.width)
    wrapper.changes.insert(0 if first else len(wrapper.changes), change)

    def undo() -> None:
        wrapper.changes.remove(change)
        if not wrapper.changes:
            wrapper.restore()

    return undo


class _PostAttention:
    """Wraps XLNet's method `post_attention`, since there is no module to hook.

    The changes are made in the order they came, as hooks are.
    """

    def __init__(self, core: Any, width: int):
        self.core, self.width = core, width
        self.own = "post_attention" in core.__dict__  # whether the layer has one of its own
        self.original = core.post_attention
        self.changes: list[Callable[[torch.Tensor], torch.Tensor]] = []

    def __call__(self, h: torch.Tensor, context: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        changed = context.flatten(-2)
        for change in self.changes:
            changed = change(changed)
        return self.original(h, changed.unflatten(-1, (-1, self.width)), *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the layer gets its own method: no gate, and not our weights."""
        return partial(type(self.core).post_attention, memo[id(self.core)])

    def restore(self) -> None:
        if self.own:
            self.core.post_attention = self.original
        else:
            del self.core.post_attention


def forget_compiled() -> None:
    """Have torch.compile compile again, since it does not notice when hooks come or go.

    Except for the kernels of flex attention, which hold no modules and take seconds to compile.
    """
    frames = sys.modules.get("torch._dynamo.convert_frame")
    if frames is None:
        return
    codes = [code for ref in frames.input_codes.seen if (code := ref()) is not None]
    files = [code.co_filename.replace("\\", "/") for code in codes]
    if not all(any(part in file for part in NO_MODULES) for file in files):
        torch.compiler.reset()
