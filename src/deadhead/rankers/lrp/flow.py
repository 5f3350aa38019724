"""Run a model so that its backward pass carries relevance: every operation gets its rule as it is called.

The model's own code runs; a torch function mode watches the operations it makes and hands those that
need a rule to a set of rules (lrp_alphabeta, lrp_epsilon). What only moves numbers about needs none.
An operation without a rule is refused by name, so an architecture is supported exactly when
everything it does has a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.errors import UnsupportedModel

# Operations that move, copy or pick numbers; and dropout, which does nothing in evaluation mode.
MOVES = {
    *(
        "view",
        "reshape",
        "transpose",
        "permute",
        "contiguous",
        "__getitem__",
        "select",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
    ),
    *(
        "split",
        "chunk",
        "unbind",
        "cat",
        "stack",
        "index_select",
        "index_copy",
        "narrow",
        "gather",
        "expand",
        "view_as",
        "clone",
    ),
    *(
        "to",
        "type_as",
        "float",
        "double",
        "half",
        "bfloat16",
        "t",
        "__get__",
        "requires_grad_",
        "dropout",
    ),
}
SUMS = ("add", "__add__", "__radd__", "__iadd__", "add_")
SCALINGS = ("mul", "__mul__", "__rmul__", "__imul__", "mul_", "div", "__truediv__")
ACTIVATIONS = ("relu", "gelu", "tanh", "silu")
ACTIVATION_MODULES = ("transformers.activations", "torch.nn.modules.activation")
SUPPORTED = (
    "encoders such as BERT, RoBERTa, XLM-R, ELECTRA and encoder-decoders such as Marian, BART, mBART, M2M100, that is models made of "
    "linear layers, layer norm, element-wise activations, residual sums and softmax attention"
)

Weigh = Callable[[Tensor], Tensor]  # scores -> attention weights


class Rules(Protocol):
    """What a set of rules says about each operation; every method answers with the operation's own value."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
    def layer_norm(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor: ...
    def add(self, x: Tensor, y: Tensor) -> Tensor: ...
    def shift(self, x: Tensor, output: Tensor) -> Tensor: ...  # x + constant
    def scale(self, x: Tensor, output: Tensor) -> Tensor: ...  # x * constant
    def activation(self, x: Tensor, output: Tensor) -> Tensor: ...
    def attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float, weigh: Weigh) -> Tensor: ...
    def relevance(self, activation: Tensor, gradient: Tensor) -> Tensor: ...


@contextmanager
def flowing(model: nn.Module, rules: Rules) -> Iterator[TorchFunctionMode]:
    """Make a model (in evaluation mode, its weights frozen) ready for rules; they are in place `with` what this gives."""
    watch = _Watch(model, rules)
    with ExitStack() as stack:
        stack.enter_context(_attention_in_one_call(model))
        for module in model.modules():
            if type(module).__module__ in ACTIVATION_MODULES and not isinstance(
                module, nn.MultiheadAttention | nn.Softmax
            ):
                stack.callback(module.register_forward_pre_hook(watch.enter_activation).remove)
                stack.callback(module.register_forward_hook(watch.leave_activation).remove)
        yield watch


@contextmanager
def _attention_in_one_call(model: Any) -> Iterator[None]:
    """Have attention computed by one function of queries, keys and values, which a rule can stand in for."""
    configs = {id(c): c for m in model.modules() if (c := m.__dict__.get("config")) is not None}
    before = [
        (c, c._attn_implementation_internal)
        for c in configs.values()
        if hasattr(c, "_attn_implementation_internal")
    ]
    if not before or not getattr(model, "_supports_sdpa", False):
        raise refusal(model, "its own form of attention")
    try:
        for config, _ in before:
            config._attn_implementation_internal = "sdpa"
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def refusal(model: nn.Module, operation: str) -> UnsupportedModel:
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    return UnsupportedModel(
        f"LRP has no rule for something {kind!r} does: {operation}. Supported are {SUPPORTED}.",
        'rank with method="gradient", which needs no rules',
    )


def _asks(value: Any) -> bool:
    """Whether relevance must find its way through this."""
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, tuple | list) and any(map(_asks, value))


class _Watch(TorchFunctionMode):
    """Sees every operation the model makes. (What is called from within is not seen again.)"""

    def __init__(self, model: nn.Module, rules: Rules):
        super().__init__()
        self.model, self.rules = model, rules
        self.inside_activation = False
        self.handlers: dict[str, Callable[..., Any]] = {
            "linear": rules.linear,
            "layer_norm": self.layer_norm,
            "scaled_dot_product_attention": self.attention,
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if (
            self.inside_activation
            or not torch.is_grad_enabled()
            or not (_asks(args) or _asks(tuple(kwargs.values())))
        ):
            return func(*args, **kwargs)
        if name in self.handlers:
            return self.handlers[name](*args, **kwargs)
        result = func(*args, **kwargs)
        if name in (*SUMS, *SCALINGS) and (kwargs or len(args) != 2):
            raise refusal(self.model, f"the operation {name} with {', '.join(kwargs)}")
        if name in SUMS:
            x, y = args
            return (
                self.rules.add(x, y)
                if _asks(x) and _asks(y)
                else self.rules.shift(x if _asks(x) else y, result)
            )
        if name in SCALINGS:
            x, y = args
            if _asks(y) and (_asks(x) or "div" in name):
                raise refusal(self.model, "the product or ratio of two activations")
            return self.rules.scale(x if _asks(x) else y, result)
        if name in ACTIVATIONS:
            return self.rules.activation(args[0], result)
        if name not in MOVES and _asks(result):
            raise refusal(self.model, f"the operation {name}")
        return result

    def enter_activation(self, module: nn.Module, args: Any) -> None:
        self.inside_activation = True

    def leave_activation(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        """However an activation module computes its function, it is one element-wise step."""
        ruled = self.rules.activation(args[0], output) if _asks(args) else output
        self.inside_activation = False
        return ruled

    def layer_norm(
        self,
        x: Tensor,
        shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        if len(shape) != 1:
            raise refusal(self.model, "layer norm over several axes")
        return self.rules.layer_norm(x, weight, bias, eps)

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if enable_gqa:
            raise refusal(self.model, "grouped-query attention")

        def weigh(scores: Tensor) -> Tensor:
            lowest = torch.finfo(
                scores.dtype
            ).min  # rather than -inf: a position that may see nothing must not become nan
            if is_causal:
                scores = scores.masked_fill(
                    scores.new_ones(scores.shape[-2:]).triu(1).bool(), lowest
                )
            if attn_mask is not None:
                scores = (
                    scores.masked_fill(~attn_mask, lowest)
                    if attn_mask.dtype == torch.bool
                    else scores + attn_mask
                )
            return scores.softmax(-1)

        return self.rules.attention(
            query, key, value, query.shape[-1] ** -0.5 if scale is None else scale, weigh
        )


def only_present(context: Tensor, heads: list[int], width: int) -> None:
    """Note on a layer's context which of its heads count: a closed one has no part in the output bias."""
    columns = (torch.tensor(heads)[:, None] * width + torch.arange(width)).flatten()
    context.deadhead_present = columns.to(context.device)  # type: ignore[attr-defined]


def present_heads(x: Tensor) -> Tensor | None:
    return getattr(x, "deadhead_present", None)
