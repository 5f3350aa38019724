"""The transformer layers of a model, copies without a second copy of the weights, and activations
that are computed again instead of kept.

`checkpointed` is gradient checkpointing for every model, also in evaluation mode: a layer keeps its
input alone, and runs again when the backward pass needs the rest. Hooks inside a layer then run
twice; `is_repeated` says which of the two runs it is.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .discover import find_every_site
from .site import Site


@dataclass(frozen=True)
class StackLayer:
    """A member of a list of modules that has sites inside."""

    module: nn.Module
    prefix: str  # that the paths inside start with
    stack: str  # the path of the list


def layers_around(model: nn.Module, sites: Iterable[Site]) -> list[StackLayer]:
    """The members of the outermost lists of modules that have these sites inside."""
    kinds = nn.ModuleList | nn.Sequential
    lists = {name: module for name, module in model.named_modules() if isinstance(module, kinds)}
    stacks: dict[str, None] = {}  # an ordered set
    for site in sites:
        around = (name for name in lists if name and site.path.startswith(f"{name}."))
        if (outermost := min(around, key=len, default=None)) is not None:
            stacks[outermost] = None
    return [
        StackLayer(module, f"{stack}.{name}.", stack)
        for stack in stacks
        for name, module in lists[stack].named_children()
    ]


def replaced(module: nn.Module, function: Callable[..., Any]) -> Callable[[], None]:
    """Have a module compute something else; returns the undo function."""
    own = module.__dict__.get("forward")
    module.forward = function

    def undo() -> None:
        if own is None:
            del module.forward
        else:
            module.forward = own

    return undo


def copy_with_same_weights(model: nn.Module) -> nn.Module:
    """A copy whose modules are its own and whose weights are those of the model.

    `prune` replaces weights, so that either of the two can be cut while the other stays whole.
    """
    tensors = (*model.parameters(), *model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


@contextmanager
def checkpointed(model: nn.Module) -> Iterator[None]:
    """Have every layer of the model keep its input alone; the numbers stay the same."""
    with ExitStack() as stack:
        for layer in layers_around(model, find_every_site(model)):
            run = partial(_run, layer.module.forward)
            stack.callback(replaced(layer.module, run))
        yield


def _run(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, context_fn=_contexts, **kwargs)


def _contexts() -> tuple[Any, Any]:
    """Around the first run of a layer, and around the second one."""
    return nullcontext(), _repeated()


_REPEATED = [0]  # how many layers run a second time now


@contextmanager
def _repeated() -> Iterator[None]:
    _REPEATED[0] += 1
    try:
        yield
    finally:
        _REPEATED[0] -= 1


def is_repeated() -> bool:
    """Whether a layer runs for the second time, in the backward pass of a checkpointed model."""
    return _REPEATED[0] > 0
