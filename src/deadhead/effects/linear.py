"""A run whose logits are linear in what its layers add to the residual stream.

Norms keep the scale, and activations behind the stream (in the task layer of a masked language
model, or a cap of the logits) the ratio of output to input, that they have in the run. The layers
themselves are cut: a head gets no gradient through heads and neurons that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.errors import UnsupportedModel
from deadhead.forward import precise
from deadhead.heads import names
from deadhead.heads.hooks import attach, hooked
from deadhead.heads.layers import layers_around
from deadhead.heads.parts import is_linear
from deadhead.heads.site import Site

from .tape import mapped

# functions whose result only scales a norm, so that it counts as a constant
SCALES = ("rsqrt", "sqrt", "std", "norm", "vector_norm", "linalg_vector_norm")
ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "mish", "relu6", "leaky_relu", "elu", "hardswish")
# autograd's names of what adds numbers or moves them
SUMS = ("Add", "View", "UnsafeView", "ReshapeAlias", "Clone", "ToCopy", "Alias")


class Linear:
    """A model whose layers are cut off the stream: what it adds up, batch by batch."""

    def __init__(self, biases: list[Tensor]):
        self.biases = biases
        # of a site, of a skipped module by its path, and of the embeddings
        self.leaves: list[tuple[Site | str, Tensor]] = []
        self.entered: set[str] = set()  # stacks of layers
        self.mode = _Frozen()

    def begin(self) -> None:
        self.leaves.clear()
        self.entered.clear()

    def leaf(self, part: Site | str, value: Tensor) -> Tensor:
        """A copy that starts a graph of its own; the model may change it in place."""
        leaf = value.detach().requires_grad_()
        self.leaves.append((part, leaf))
        return leaf.clone()

    def enter(self, stack: str) -> Callable[..., Any]:
        """The hook of a layer: the input of the first one of a stack is the embeddings."""

        def hook(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            if stack in self.entered:
                return None
            self.entered.add(stack)
            if args and isinstance(args[0], Tensor):
                return (self.leaf("embeddings", args[0]), *args[1:]), kwargs
            stream = kwargs.get("hidden_states")
            if isinstance(stream, Tensor):
                return args, {**kwargs, "hidden_states": self.leaf("embeddings", stream)}
            return None

        return hook

    def cut(self, path: str, module: nn.Module, stack: ExitStack) -> None:
        """Have the output of a skipped module start a graph of its own, until the stack ends."""
        inputs: list[Tensor] = []

        def started(value: Tensor) -> Tensor:
            if not value.is_floating_point():
                return value
            inputs.append(value.detach().requires_grad_())
            return inputs[-1]

        def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            inputs.clear()
            return mapped((args, kwargs), Tensor, started)

        def after(module: nn.Module, args: Any, output: Any) -> Any:
            first, *others = output if isinstance(output, tuple) else (output,)
            if not isinstance(first, Tensor) or _has_in_its_sum(first, inputs):
                raise UnsupportedModel(
                    f"{path} ({type(module).__name__}) is no layer that deadhead knows, and adds "
                    "its input to its output itself.",
                    "measure effects with patch_effects, or rank by ablation",
                )
            leaf = self.leaf(path, first)
            return (leaf, *others) if isinstance(output, tuple) else leaf

        stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        stack.callback(module.register_forward_hook(after).remove)


def _has_in_its_sum(output: Tensor, inputs: list[Tensor]) -> bool:
    """Whether one of the inputs, as it is, is a summand of the output."""
    nodes: list[Any] = [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if any(getattr(node, "variable", None) is value for value in inputs):
            return True
        if type(node).__name__.startswith(SUMS):
            nodes += [below for below, _ in node.next_functions if below is not None]
    return False


@contextmanager
def linear(model: nn.Module, sites: list[Site], skipped: Iterable[str]) -> Iterator[Linear]:
    """Cut the layers off the stream of a frozen model; restore it afterwards."""
    named = [*model.named_parameters(), *model.named_buffers()]
    biases = [t for name, t in named if name.endswith("bias") and t.is_floating_point()]
    run = Linear(biases)
    with hooked(model, sites) as stack:
        for site in sites:
            if site.kept:
                stack.callback(attach(site, partial(run.leaf, site)))
            for use in site.uses:
                for role, part in use.parts.items():
                    if role != "o" and is_linear(part.module):
                        # its output starts a new graph anyway
                        hook = part.module.register_forward_pre_hook(_detached)
                        stack.callback(hook.remove)
        inside = tuple(use.path for site in sites for use in site.uses)
        for path in skipped:
            if path and not any(f"{other}.".startswith(f"{path}.") for other in inside):
                run.cut(path, model.get_submodule(path), stack)
        for layer in layers_around(model, sites):
            hook = layer.module.register_forward_pre_hook(run.enter(layer.stack), with_kwargs=True)
            stack.callback(hook.remove)
        for module in model.modules():
            if type(module).__module__ in names.ACTIVATION_MODULES:
                stack.callback(module.register_forward_pre_hook(run.mode.enter).remove)
                stack.callback(module.register_forward_hook(run.mode.leave).remove)
        for bias in biases:
            stack.callback(bias.requires_grad_, bias.requires_grad)
            bias.requires_grad_()
        yield run


def _detached(module: nn.Module, args: tuple[Any, ...]) -> Any:
    return mapped(args, Tensor, Tensor.detach)


class _Frozen(TorchFunctionMode):
    """Norms keep their scale, activations their ratio of output to input."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0  # activation modules

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if self.inside or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        if name == "layer_norm":
            return _layer_norm(*args, **kwargs)
        if name == "rms_norm":
            return _rms_norm(*args, **kwargs)
        result = func(*args, **kwargs)
        if name in SCALES or (name in ("pow", "__pow__") and _is_root(*args, **kwargs)):
            return result.detach()
        if name == "normalize" or (name in ACTIVATIONS and _needs_gradient(args)):
            return _ratio(args[0], result)
        return result

    def enter(self, module: nn.Module, args: Any) -> None:
        self.inside += 1

    def leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        self.inside -= 1
        return _ratio(args[0], output) if _needs_gradient(args) else output


def _needs_gradient(args: Any) -> bool:
    return bool(args) and isinstance(args[0], Tensor) and args[0].requires_grad


def _is_root(base: Any, exponent: Any = None, **kwargs: Any) -> bool:
    return isinstance(exponent, float) and exponent < 1


def _ratio(value: Tensor, output: Tensor) -> Tensor:
    """The output as the value times a constant."""
    fixed = value.detach()
    return value * torch.where(fixed == 0, 0, output.detach() / fixed)


def _layer_norm(
    value: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    centred = precise(value) - precise(value).mean(_axes(shape), keepdim=True)
    normal = _normal(centred, shape, weight, eps)
    return (normal if bias is None else normal + bias).to(value.dtype)


def _rms_norm(value: Tensor, shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    eps = torch.finfo(value.dtype).eps if eps is None else eps
    return _normal(precise(value), shape, weight, eps).to(value.dtype)


def _normal(value: Tensor, shape: Any, weight: Tensor | None, eps: float) -> Tensor:
    """Divide by the root of the mean square, which counts as a constant."""
    square = value.detach().square().mean(_axes(shape), keepdim=True)
    normal = value * (square + eps).rsqrt()
    return normal if weight is None else normal * weight


def _axes(shape: Any) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))
