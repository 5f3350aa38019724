"""Apply a user's ablation, whatever form it has, and undo it; remove what it leaves on a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from deadhead.errors import DeadheadError
from deadhead.layout import Head

HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
Ablation = Callable[[nn.Module, tuple[Head, ...]], Any]
# module -> its hooks, and the attributes set on it that can be called
Hooks = dict[nn.Module, tuple[dict[str, dict[Any, Any]], dict[str, Any]]]


@contextmanager
def applied(function: Ablation, model: nn.Module, heads: tuple[Head, ...]) -> Iterator[None]:
    """Apply the user's ablation, in any of the forms it may have, and undo it."""
    answer = function(model, heads)
    if hasattr(answer, "__enter__"):
        with answer:
            yield
    elif inspect.isgenerator(answer):
        next(answer)
        yield
        next(answer, None)
    else:
        try:
            yield
        finally:
            _undo(answer)


def _undo(answer: Any) -> None:
    if answer is None:
        return  # it left its hooks, which are reported and removed
    if hasattr(answer, "remove") and not isinstance(answer, list):
        answer.remove()
    elif callable(answer):
        answer()
    elif isinstance(answer, Iterable):
        for item in answer.values() if isinstance(answer, Mapping) else answer:
            _undo(item)
    else:
        raise DeadheadError(
            "check_ablation expects the function to return a context manager, handles of hooks or "
            f"a function that undoes it, got {type(answer).__name__}.",
            "decorate it with @contextlib.contextmanager and yield while the heads are removed",
        )


def hooks_of(model: nn.Module) -> Hooks:
    """The hooks of each module, and the attributes set on it, such as a replaced `forward`."""
    return {
        module: (
            {name: dict(getattr(module, name)) for name in HOOKS},
            {name: value for name, value in vars(module).items() if callable(value)},
        )
        for module in model.modules()
    }


def restore(model: nn.Module, before: Hooks) -> None:
    """Remove the hooks, and the attributes of modules, that were not there before."""
    now = hooks_of(model)
    for module, (hooks, methods) in before.items():
        for name, entries in hooks.items():
            getattr(module, name).clear()
            getattr(module, name).update(entries)
        for name in now[module][1].keys() - methods.keys():
            delattr(module, name)
        for name, method in methods.items():
            if now[module][1].get(name) != method:
                setattr(module, name, method)
