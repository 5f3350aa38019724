"""Direct effects: what each head adds to a logit through the residual stream, past other layers.

The logits are a sum. The stream is the embeddings and what attention and feed-forward layers add to
it; what follows is linear but for norms and activations. Those are frozen at the run: a norm keeps
its scale, and an activation (in the task layer of a masked language model, or a cap of the logits)
its ratio of output to input. What is left is linear in the output of each head, in each neuron, the
embeddings and the biases. So the gradient times the value of each is its effect, and the effects
add up to the target.

The layers themselves are cut: a head gets no gradient through heads and neurons that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import precise
from deadhead.heads.discover import layout_of, search
from deadhead.heads.hooks import attach, hooked
from deadhead.heads.layers import layers_around
from deadhead.heads.parts import is_linear
from deadhead.heads.rows import batch_first
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, HeadLayout, LayerKey
from deadhead.rankers.gate_gradients import wide
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of, forward, on_device
from deadhead.rankers.run import frozen, refuse_resampling

from .effects import HeadAt, HeadTable
from .metrics import Metric, Tokens, logit, moved

# functions whose result only scales a norm, so that it counts as a constant
SCALES = ("rsqrt", "sqrt", "std", "norm", "vector_norm", "linalg_vector_norm")
ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "mish", "relu6", "leaky_relu", "elu", "hardswish")
# autograd's names of what adds numbers or moves them
SUMS = ("Add", "View", "UnsafeView", "ReshapeAlias", "Clone", "ToCopy", "Alias")
ACTIVATION_MODULES = ("transformers.activations", "torch.nn.modules.activation")


@dataclass(frozen=True, kw_only=True)
class DirectEffects(HeadTable):
    """The mean over examples of what each part of a model adds to the target; they add up to it.

    heads: of each head, or of each head and position.
    feed_forward: of each feed-forward layer; their biases and those of attention are in `biases`.
    others: of layers whose heads or neurons deadhead skips, such as mixtures of experts, by path.
    target: the logit, or the difference of logits.
    """

    heads: Mapping[HeadAt, float] = field(repr=False)
    feed_forward: Mapping[LayerKey, float] = field(repr=False)
    others: Mapping[str, float] = field(repr=False)
    embeddings: float
    biases: float
    target: float
    examples: int
    layout: HeadLayout

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each part: heads, feed-forward layers, embeddings and biases."""
        rows: list[dict[str, Any]] = [
            {"part": str(head), "position": position, "effect": value}
            for (head, position), value in self.heads.items()
        ]
        rows += [
            {"part": f"{block}.{layer}.feed_forward", "position": None, "effect": value}
            for (block, layer), value in self.feed_forward.items()
        ]
        rest = {**self.others, "embeddings": self.embeddings, "biases": self.biases}
        return rows + [
            {"part": name, "position": None, "effect": value} for name, value in rest.items()
        ]

    def by_head(self) -> dict[Head, float]:
        """The effect of each head, at all positions together."""
        sums: dict[Head, float] = {}
        for (head, _), value in self.heads.items():
            sums[head] = sums.get(head, 0.0) + value
        return sums

    @property
    def title(self) -> str:
        rest = self.target - sum(self.heads.values())
        return f"direct effect of each head on {self.target:.4g} (all other parts {rest:.4g})"


def direct_effects(
    model: nn.Module,
    batches: Batch | Iterable[Batch],
    target: Metric | Tokens,
    *,
    positions: bool = False,
    progress: bool | Progress = True,
) -> DirectEffects:
    """What each head adds to a logit, or to a difference of logits, past all other layers.

    Args:
        batches: a batch ready for `model(**batch)`, or a list of batches.
        target: the number of a token (or class), for all examples or one for each: its logit at
            the last real token. Or a function of the outputs and the batch that gives one number
            per example and is linear in the logits, such as `logit(token, position)` or
            `logit_difference(answer, wrong)`; a probability is not.
        positions: give the effect of each head from each position of the padded row, instead of
            their sum. In a language model the predicting position alone has a direct effect.
        progress: show a bar in a terminal or a notebook; or a function that is called with the
            number of batches done and their total.

    Heads, feed-forward and other layers, embeddings and biases add up to the target, but for
    rounding: norms keep the scale, and activations on the way the ratio, that they have in this
    run. A model in which they do not add up is refused. Heads that only other layers read, such as
    those of the encoder of a translation model, have 0.

    >>> effects = direct_effects(model, batch, logit_difference(mary, john))
    >>> effects.by_head()
    """
    refuse_resampling(model)
    metric = target if callable(target) else logit(target)
    listed = [batches] if isinstance(batches, Mapping) else list(batches)
    if not listed:
        raise DataError("`batches` expects at least one batch, got none.", "give it some data")
    sites, skipped = search(model, "heads")
    sums = _Sums(positions=positions)
    with (
        frozen(model, seed=0),
        _linear(model, sites, skipped) as run,
        reported(progress, "batches") as count,
    ):
        for number, batch in enumerate(listed):
            sums.add(model, run, batch, PerExample(metric, "target"))
            count(number + 1, len(listed))
    examples = sums.examples
    return DirectEffects(
        heads={place: value / examples for place, value in sums.heads.items()},
        feed_forward={layer: value / examples for layer, value in sums.feed_forward.items()},
        others={path: value / examples for path, value in sums.others.items()},
        embeddings=sums.embeddings / examples,
        biases=sums.biases / examples,
        target=sums.target / examples,
        examples=examples,
        layout=layout_of([site for site in sites if site.kind == "heads"]),
    )


class _Sums:
    """Sums over examples, and the reading of one batch."""

    def __init__(self, *, positions: bool):
        self.positions = positions
        self.lengths: dict[str, int] = {}  # of the rows of each block
        self.heads: defaultdict[HeadAt, float] = defaultdict(float)
        self.feed_forward: defaultdict[LayerKey, float] = defaultdict(float)
        self.others: defaultdict[str, float] = defaultdict(float)
        self.embeddings = self.biases = self.target = 0.0
        self.examples = 0

    def add(self, model: nn.Module, run: _Linear, batch: Batch, metric: PerExample) -> None:
        run.begin()
        with run.mode:
            outputs = forward(model, on_device(batch, model))
        target = metric(outputs, moved(batch, model)).sum()
        if not target.requires_grad:
            raise UnsupportedModel(
                "the target does not depend on the residual stream of the model.",
                "check that it comes from the logits, undetached",
            )
        leaves = [leaf for _, leaf in run.leaves] + run.biases
        gradients = torch.autograd.grad(target, leaves, allow_unused=True)
        parts = [
            torch.zeros_like(leaf) if gradient is None else gradient * leaf.detach()
            for leaf, gradient in zip(leaves, gradients, strict=True)
        ]
        sums = [float(wide(part).sum()) for part in parts]
        size = sum(float(wide(part).abs().sum()) for part in parts)
        value = float(wide(target.detach()))
        _check(model, sum(sums), value, size, target.dtype)
        self.target += value
        self.examples += examples_of(batch)
        self.biases += sum(sums[len(run.leaves) :])
        for (site, _), part, total in zip(run.leaves, parts, sums, strict=False):
            if site is None:
                self.embeddings += total
            elif isinstance(site, str):
                self.others[site] += total
            elif site.kind == "neurons":
                self.feed_forward[site.layer_key] += total
            else:
                self._add_heads(site, part)

    def _add_heads(self, site: Site, part: Tensor) -> None:
        rows = wide(batch_first(site, part)).unflatten(-1, (-1, site.width)).sum(-1)
        heads = [Head(*site.layer_key, index) for index in site.kept]
        if not self.positions:
            rows = rows.flatten(0, -2)[:, None]
        elif rows.dim() != 3 or self.lengths.setdefault(site.block, rows.shape[1]) != rows.shape[1]:
            raise DataError(
                f"positions expect rows of one length, got {tuple(rows.shape[:-1])} in "
                f"{site.block} layer {site.layer}.",
                "pad all batches to one length, or leave positions out",
            )
        for position, row in enumerate(rows.sum(0).tolist()):
            for head, value in zip(heads, row, strict=True):
                self.heads[head, position if self.positions else None] += value


def _check(model: nn.Module, total: float, value: float, size: float, dtype: torch.dtype) -> None:
    """Raise an error unless the effects add up: else the stream or the target has other parts."""
    rounding = max(torch.finfo(kind).eps for kind in (dtype, torch.float32)) ** 0.75
    # not "more than": a sum may be nan
    if not abs(total - value) <= rounding * (size + abs(value)):
        raise UnsupportedModel(
            f"the effects add up to {total:.6g}, but the target is {value:.6g}: the stream of "
            f"{type(model).__name__} has parts beside attention, feed-forward layers, embeddings "
            "and biases, or the target is not linear in the logits.",
            "give a logit or a difference of logits as the target; for other models measure "
            "effects with patch_effects, or rank by ablation",
        )


class _Linear:
    """A model whose layers are cut off the stream: what it adds up, batch by batch."""

    def __init__(self, biases: list[Tensor]):
        self.biases = biases
        # of a site, of a skipped module by its path, and, None, of the embeddings
        self.leaves: list[tuple[Site | str | None, Tensor]] = []
        self.entered: set[str] = set()  # stacks of layers
        self.mode = _Frozen()

    def begin(self) -> None:
        self.leaves.clear()
        self.entered.clear()

    def leaf(self, site: Site | str | None, value: Tensor) -> Tensor:
        """A copy that starts a graph of its own; the model may change it in place."""
        leaf = value.detach().requires_grad_()
        self.leaves.append((site, leaf))
        return leaf.clone()

    def at(self, site: Site) -> Callable[[Tensor], Tensor]:
        return lambda context: self.leaf(site, context)

    def enter(self, stack: str) -> Callable[..., Any]:
        """The hook of a layer: the input of the first one of a stack is the embeddings."""

        def hook(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            if stack in self.entered:
                return None
            self.entered.add(stack)
            if args and isinstance(args[0], Tensor):
                return (self.leaf(None, args[0]), *args[1:]), kwargs
            if isinstance(kwargs.get("hidden_states"), Tensor):
                return args, {**kwargs, "hidden_states": self.leaf(None, kwargs["hidden_states"])}
            return None

        return hook

    def cut(self, path: str, module: nn.Module) -> Callable[[], None]:
        """Have the output of a skipped module start a graph of its own; returns the undo."""
        read: list[Tensor] = []

        def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            values = [v.detach().requires_grad_() if _is_float(v) else v for v in args]
            named = {
                n: v.detach().requires_grad_() if _is_float(v) else v for n, v in kwargs.items()
            }
            read[:] = [value for value in (*values, *named.values()) if _is_float(value)]
            return tuple(values), named

        def after(module: nn.Module, args: Any, output: Any) -> Any:
            first = output[0] if isinstance(output, tuple) else output
            if not _is_float(first) or _has_in_its_sum(first, read):
                raise UnsupportedModel(
                    f"{path} ({type(module).__name__}) is no layer that deadhead knows, and adds "
                    "its input to its output itself.",
                    "measure effects with patch_effects, or rank by ablation",
                )
            leaf = self.leaf(path, first)
            return (leaf, *output[1:]) if isinstance(output, tuple) else leaf

        undo = ExitStack()
        undo.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        undo.callback(module.register_forward_hook(after).remove)
        return undo.close


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


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
def _linear(model: nn.Module, sites: list[Site], skipped: Iterable[str]) -> Iterator[_Linear]:
    """Cut the layers off the stream of a frozen model; restore it afterwards."""
    named = [*model.named_parameters(), *model.named_buffers()]
    biases = [t for name, t in named if name.endswith("bias") and t.is_floating_point()]
    before = [(bias, bias.requires_grad) for bias in biases]
    run = _Linear(biases)
    with hooked(model, sites) as stack:
        for site in sites:
            if site.kept:
                stack.callback(attach(site, run.at(site)))
            for use in site.uses:
                _cut_inputs(use, stack)
        inside = tuple(use.path for site in sites for use in site.uses)
        for path in skipped:
            if path and not any(f"{other}.".startswith(f"{path}.") for other in inside):
                stack.callback(run.cut(path, model.get_submodule(path)))
        for layer in layers_around(model, sites):
            hook = layer.module.register_forward_pre_hook(run.enter(layer.stack), with_kwargs=True)
            stack.callback(hook.remove)
        for module in model.modules():
            if type(module).__module__ in ACTIVATION_MODULES:
                stack.callback(module.register_forward_pre_hook(run.mode.enter).remove)
                stack.callback(module.register_forward_hook(run.mode.leave).remove)
        try:
            for bias in biases:
                bias.requires_grad_()
            yield run
        finally:
            for bias, flag in before:
                bias.requires_grad_(flag)


def _cut_inputs(site: Site, stack: ExitStack) -> None:
    """What a layer reads has no gradient: its own output starts a new graph anyway."""

    def detach(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(value.detach() if isinstance(value, Tensor) else value for value in args)

    for role, part in site.parts.items():
        if role != "o" and is_linear(part.module):
            stack.callback(part.module.register_forward_pre_hook(detach).remove)


class _Frozen(TorchFunctionMode):
    """Norms keep their scale, activations their ratio of output to input."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0  # activation modules

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if self.inside or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        if name == "layer_norm":
            return _layer_norm(*args, **kwargs)
        if name == "rms_norm":
            return _rms_norm(*args, **kwargs)
        if name == "normalize":
            scaled, first = func(*args, **kwargs), args[0].detach()
            return args[0] * torch.where(first == 0, 0, scaled.detach() / first)
        result = func(*args, **kwargs)
        if name in SCALES or (name in ("pow", "__pow__") and _is_root(args, kwargs)):
            return result.detach()
        if name in ACTIVATIONS and isinstance(args[0], Tensor) and args[0].requires_grad:
            return _ratio(args[0], result)
        return result

    def enter(self, module: nn.Module, args: Any) -> None:
        self.inside += 1

    def leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        self.inside -= 1
        if args and isinstance(args[0], Tensor) and args[0].requires_grad:
            return _ratio(args[0], output)
        return output


def _is_root(args: Any, kwargs: Mapping[str, Any]) -> bool:
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
    return isinstance(exponent, float) and exponent < 1


def _ratio(value: Tensor, output: Tensor) -> Tensor:
    """The output as the value times a constant."""
    fixed = value.detach()
    return value * torch.where(fixed == 0, 0, output.detach() / fixed)


def _layer_norm(
    value: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    exact = precise(value)
    normal = _scaled(exact - exact.mean(axes, keepdim=True), axes, eps)
    normal = normal if weight is None else normal * weight
    return (normal if bias is None else normal + bias).to(value.dtype)


def _rms_norm(
    value: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(value.dtype).eps if eps is None else eps
    normal = _scaled(precise(value), axes, eps)
    return (normal if weight is None else normal * weight).to(value.dtype)


def _scaled(value: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """Scale by the root of the mean square, which counts as a constant."""
    square = value.detach().square().mean(axes, keepdim=True)
    return value * (square + eps).rsqrt()
