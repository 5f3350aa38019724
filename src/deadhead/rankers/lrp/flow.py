"""Run a model so that its backward pass carries relevance: every operation is given its rule.

The model's own code runs; a torch function mode intercepts its operations and passes those that
need a rule to a set of rules (alphabeta, epsilon). What only moves numbers needs none. An operation
without a rule is refused by name, so an architecture is supported exactly when everything it does
has a rule.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.errors import UnsupportedModel
from deadhead.forward import configs_of
from deadhead.heads import names
from deadhead.heads.discover import type_of

# Operations that move, copy or pick numbers; and dropout, which does nothing in evaluation mode.
MOVES = frozenset(
    """
    view reshape transpose permute contiguous __getitem__ select unsqueeze squeeze flatten
    unflatten split chunk unbind cat stack index_select index_copy narrow gather expand view_as
    clone to type_as float double half bfloat16 t __get__ requires_grad_ dropout
    """.split()  # noqa: SIM905  (a list would take 33 lines)
)
SUMS = ("add", "__add__", "__radd__", "__iadd__", "add_")
SCALINGS = ("mul", "__mul__", "__rmul__", "__imul__", "mul_", "div", "__truediv__")
ACTIVATIONS = ("relu", "gelu", "tanh", "silu")
SUPPORTED = (
    "encoders such as BERT, RoBERTa, XLM-R, ELECTRA and encoder-decoders such as Marian, BART, "
    "mBART, M2M100, that is models made of linear layers, layer norm, element-wise activations, "
    "residual sums and softmax attention"
)

Weigh = Callable[[Tensor], Tensor]  # scores -> attention weights
Weight = Tensor | None  # or a bias: some layers have none


class Rules(Protocol):
    """A rule for each operation; every method returns the operation's own value."""

    def linear(self, x: Tensor, weight: Tensor, bias: Weight = None) -> Tensor: ...
    def layer_norm(self, x: Tensor, weight: Weight, bias: Weight, eps: float) -> Tensor: ...
    def add(self, x: Tensor, y: Tensor) -> Tensor: ...
    def shift(self, x: Tensor, output: Tensor) -> Tensor: ...  # x + constant
    def scale(self, x: Tensor, output: Tensor) -> Tensor: ...  # x * constant
    def activation(self, x: Tensor, output: Tensor) -> Tensor: ...
    def attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float, weigh: Weigh) -> Tensor: ...
    def relevance(self, activation: Tensor, gradient: Tensor) -> Tensor: ...


@contextmanager
def flowing(model: nn.Module, rules: Rules) -> Iterator[TorchFunctionMode]:
    """Prepare a model (in evaluation mode, with frozen weights) for rules.

    The rules apply inside the context that this gives.
    """
    interceptor = _Interceptor(model, rules)
    with ExitStack() as stack:
        stack.enter_context(_attention_in_one_call(model))
        for module in model.modules():
            other = isinstance(module, nn.MultiheadAttention | nn.Softmax)
            if type(module).__module__ in names.ACTIVATION_MODULES and not other:
                enter, leave = interceptor.enter_activation, interceptor.leave_activation
                stack.enter_context(module.register_forward_pre_hook(enter))
                stack.enter_context(module.register_forward_hook(leave))
        yield interceptor


@contextmanager
def _attention_in_one_call(model: Any) -> Iterator[None]:
    """Compute attention by one function of queries, keys and values, which a rule can replace."""
    name = "_attn_implementation_internal"
    before = [(c, getattr(c, name)) for c in configs_of(model) if hasattr(c, name)]
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
    message = f"LRP has no rule for something {type_of(model)!r} does: {operation}. "
    hint = 'rank with method="gradient", which needs no rules'
    return UnsupportedModel(f"{message}Supported are {SUPPORTED}.", hint)


def _needs_grad(value: Any) -> bool:
    """Whether relevance must pass through this."""
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, tuple | list) and any(map(_needs_grad, value))


class _Interceptor(TorchFunctionMode):
    """Intercepts every operation of the model, but not the operations inside of one."""

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
        carries = _needs_grad(args) or _needs_grad(tuple(kwargs.values()))
        if self.inside_activation or not torch.is_grad_enabled() or not carries:
            return func(*args, **kwargs)
        if name in self.handlers:
            return self.handlers[name](*args, **kwargs)
        result = func(*args, **kwargs)
        if name in (*SUMS, *SCALINGS) and (kwargs or len(args) != 2):
            raise refusal(self.model, f"the operation {name} with {', '.join(kwargs)}")
        if name in SUMS:
            x, y = args
            if _needs_grad(x) and _needs_grad(y):
                return self.rules.add(x, y)
            return self.rules.shift(x if _needs_grad(x) else y, result)
        if name in SCALINGS:
            x, y = args
            if _needs_grad(y) and (_needs_grad(x) or "div" in name):
                raise refusal(self.model, "the product or ratio of two activations")
            return self.rules.scale(x if _needs_grad(x) else y, result)
        if name in ACTIVATIONS:
            return self.rules.activation(args[0], result)
        if name not in MOVES and _needs_grad(result):
            raise refusal(self.model, f"the operation {name}")
        return result

    def enter_activation(self, module: nn.Module, args: Any) -> None:
        self.inside_activation = True

    def leave_activation(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        """However an activation module computes its function, it is one element-wise step."""
        ruled = self.rules.activation(args[0], output) if _needs_grad(args) else output
        self.inside_activation = False
        return ruled

    def layer_norm(
        self, x: Tensor, shape: Any, weight: Weight = None, bias: Weight = None, eps: float = 1e-5
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
            # rather than -inf: a position that may see nothing must not become nan
            lowest = torch.finfo(scores.dtype).min
            if is_causal:
                later = scores.new_ones(scores.shape[-2:]).triu(1).bool()
                scores = scores.masked_fill(later, lowest)
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, lowest)
            elif attn_mask is not None:
                scores = scores + attn_mask
            return scores.softmax(-1)

        scale = query.shape[-1] ** -0.5 if scale is None else scale
        return self.rules.attention(query, key, value, scale, weigh)


def only_present(context: Tensor, heads: list[int], width: int) -> None:
    """Mark on a layer's context which heads count: a closed head gets none of the output bias."""
    columns = (torch.tensor(heads)[:, None] * width + torch.arange(width)).flatten()
    context.deadhead_present = columns.to(context.device)  # type: ignore[attr-defined]


def present_heads(x: Tensor) -> Tensor | None:
    return getattr(x, "deadhead_present", None)
