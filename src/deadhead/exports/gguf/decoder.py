"""A language model in the form that llama.cpp can run, read from its modules.

Every layer is `x + attention(norm(x))`, then `x + feed_forward(norm(x))`, with rotary positions
over whole heads and a gate with SiLU. The model is recognised by structure: its layers, its norms,
and that no weight is left over. `logits` computes this form in plain torch, and `read` refuses a
model whose own answer is another one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, scaled_dot_product_attention, silu

from deadhead.errors import UnsupportedModel
from deadhead.heads import names
from deadhead.heads.discover import discover, find_every_site
from deadhead.heads.parts import bare
from deadhead.heads.sites import Site

CHANGES_WITH_LENGTH = ("dynamic", "longrope")  # rotary frequencies
LISTED = "docs/serving.md lists the models that can be written"
PROBE = 24  # tokens on which the model is compared with this form
# the largest difference of two logits, as a share of the largest, by the precision of the model
LIMITS = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Linear:
    """A matrix, outputs x inputs, and its bias."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.float()
        return linear(x, self.weight.float(), bias)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The weights of a layer. A layer without heads or without neurons has empty matrices."""

    attention_norm: Tensor
    queries: Linear
    keys: Linear
    values: Linear
    output: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    feed_forward_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """The weights of a language model, and the numbers that llama.cpp needs besides."""

    width: int  # of a head
    context: int  # tokens
    epsilon: float  # what the norms add to a variance
    theta: float  # the base of the rotary frequencies
    frequencies: Tensor  # as the model uses them, scaled or not
    magnitude: float  # by which the model multiplies rotated queries and keys
    embeddings: Tensor
    layers: tuple[Layer, ...] = field(repr=False)
    norm: Tensor
    output: Tensor | None  # None: the embeddings


def read(model: Any) -> Decoder:
    """The weights of a model; raises an error that says what llama.cpp cannot hold."""
    sites = find_every_site(model)
    _refuse_other_models(model, sites)
    config = model.config.get_text_config()
    _refuse_settings(config)
    rotary = _rotary(model, config)
    layers, outside = _layers(model, sites)
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings().weight
    norms: list[Any] = [m for m in outside if _is_norm(m, embeddings.shape[1])]
    if len(norms) != 1 or getattr(head, "bias", None) is not None:
        raise _refusal(model, "its last norm or its output matrix is not of the usual form")
    weights = [w for layer in layers for value in vars(layer).values() for w in _tensors(value)]
    used = {id(weight) for weight in (*weights, embeddings, head.weight, norms[0].weight)}
    others = [name for name, parameter in model.named_parameters() if id(parameter) not in used]
    if others:
        raise _refusal(model, f"there is no place for its weights {', '.join(others[:3])}")
    decoder = Decoder(
        width=next(site.width for site in sites if site.kind == "heads"),
        context=int(getattr(config, "max_position_embeddings", 0) or 2048),
        epsilon=_epsilon(norms[0], config),
        theta=float(config.rope_parameters["rope_theta"]),
        frequencies=rotary.inv_freq.detach().float().cpu(),
        magnitude=float(getattr(rotary, "attention_scaling", 1.0)),
        embeddings=embeddings.detach(),
        layers=tuple(layers),
        norm=norms[0].weight.detach(),
        output=None if head.weight is embeddings else head.weight.detach(),
    )
    _compare(model, decoder)
    return decoder


def _refuse_other_models(model: Any, sites: list[Site]) -> None:
    name = type(model).__name__
    if not model.config.is_encoder_decoder and any(site.block == "encoder" for site in sites):
        raise UnsupportedModel(
            f"encoders cannot be written as GGUF, got {name}.",
            "write it as ONNX (--onnx PLACE), if it reads text",
        )
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if head is None or model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        hint = "name such a model"
        if model.config.tie_word_embeddings and not model.config.is_encoder_decoder:
            hint += (
                ", or load it as one: --auto-class AutoModelForCausalLM"  # it has the output matrix
            )
        raise UnsupportedModel(
            f"GGUF expects a language model that continues text, got {name}.", hint
        )
    if getattr(model, "is_quantized", False):
        raise UnsupportedModel(
            f"GGUF is written from plain weights, got a quantised {name}.",
            "save the model without quantisation first",
        )


def _refuse_settings(config: Any) -> None:
    """Refuse what a config switches on and no weight shows."""
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    slides = (window is not None and not kinds) or bool(kinds - {"full_attention"})
    longest = int(getattr(config, "max_position_embeddings", 0) or 0)
    if slides and not (window and longest and window >= longest):
        got = "layer_types of other layers" if window is None else f"a window of {window}"
        change = '"sliding_window": null'
        if kinds:
            change += ' and only "full_attention" as layer_types'
        raise UnsupportedModel(
            f"GGUF has no uneven architecture with a sliding window, got {got}.",
            f"for texts shorter than the window, put {change} into config.json",
        )
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, name, None):
            raise UnsupportedModel(f"GGUF has no uneven architecture with `{name}`.", LISTED)
    names = ("hidden_act", "hidden_activation", "activation_function")
    act = next((act for name in names if (act := getattr(config, name, None))), None)
    if act is not None and act not in ("silu", "swish"):
        raise UnsupportedModel(
            f"GGUF has uneven architectures with the activation silu only, got {act!r}.", LISTED
        )


def _rotary(model: Any, config: Any) -> Any:
    """The module with the rotary frequencies."""
    modules = [m for m in model.modules() if isinstance(getattr(m, "inv_freq", None), Tensor)]
    settings = getattr(config, "rope_parameters", None) or {}
    kind = settings.get("rope_type", "default")
    if len(modules) != 1 or "rope_theta" not in settings:
        raise _refusal(model, "it does not have one set of rotary positions for all layers")
    if kind in CHANGES_WITH_LENGTH:
        raise _refusal(model, f"its rotary positions ({kind}) change with the length of the text")
    return modules[0]


def _layers(model: Any, sites: list[Site]) -> tuple[list[Layer], list[nn.Module]]:
    """The layers, and the modules with weights of their own outside of them."""
    attentions = [site for site in sites if site.kind == "heads"]
    feed_forwards = {site.path.rpartition(".")[0]: site for site in sites if site.kind != "heads"}
    skipped = discover(model, neurons=True).skipped
    layers, inside = [], set()
    for site in attentions:
        path = site.path.rpartition(".")[0]
        if path not in feed_forwards:
            reasons = [why for place, why in skipped.items() if place.startswith(f"{path}.")]
            raise _refusal(model, reasons[0] if reasons else f"{path} has no feed-forward layer")
        module = model.get_submodule(path)
        inside |= {id(m) for m in module.modules()}
        layers.append(_layer(model, module, site, feed_forwards[path]))
    outside = [m for m in model.modules() if id(m) not in inside and [*m.parameters(False)]]
    return layers, outside


def _layer(model: Any, module: nn.Module, attention: Site, feed_forward: Site) -> Layer:
    if {*attention.parts} != {*"qkvo"} or {*feed_forward.parts} != {"gate", "up", "o"}:
        raise _refusal(model, "its projections are fused, or its feed-forward layers have no gate")
    if attention.norms:
        raise _refusal(model, "its queries or keys have a norm over all heads at once")
    width, keys = attention.width, _linear(attention.parts["k"].module)
    heads, groups = len(attention.kept), len(keys.weight) // width
    if heads and heads % groups:
        raise _refusal(model, f"{groups} key/value heads do not divide {heads} heads")
    hidden = len(_linear(feed_forward.parts["o"].module).weight)
    own = {id(m) for site in (attention, feed_forward) for m in site.core.modules()}
    norms: list[Any] = [m for m in module.children() if id(m) not in own and _is_norm(m, hidden)]
    if len(norms) != 2:
        raise _refusal(model, f"a layer has {len(norms)} norms besides its attention, not 2")
    query_norm, key_norm = (_head_norm(attention, role) for role in "qk")
    return Layer(
        attention_norm=norms[0].weight,
        queries=_linear(attention.parts["q"].module),
        keys=keys,
        values=_linear(attention.parts["v"].module),
        output=_linear(attention.parts["o"].module),
        query_norm=query_norm,
        key_norm=key_norm,
        feed_forward_norm=norms[1].weight,
        gate=_linear(feed_forward.parts["gate"].module),
        up=_linear(feed_forward.parts["up"].module),
        down=_linear(feed_forward.parts["o"].module),
    )


def _linear(module: Any) -> Linear:
    inner = bare(module)
    return Linear(inner.weight, getattr(inner, "bias", None))


def _head_norm(site: Site, role: str) -> Any:
    """The weight of the norm over each head's queries or keys; None if there is none."""
    modules = (getattr(site.core, name, None) for name in names.NORMS[role])
    return next((m.weight for m in modules if m is not None and _is_norm(m, site.width)), None)


def _is_norm(module: Any, size: int) -> bool:
    weights = [*module.parameters()]
    return len(weights) == 1 and weights[0].shape == (size,)


def _epsilon(norm: nn.Module, config: Any) -> float:
    values = (getattr(norm, name, None) for name in ("variance_epsilon", "eps"))
    return float(next((v for v in values if v is not None), None) or config.rms_norm_eps)


def _tensors(value: Any) -> Iterator[Tensor]:
    parts = (value.weight, value.bias) if isinstance(value, Linear) else (value,)
    return (part for part in parts if isinstance(part, Tensor))


def _refusal(model: Any, reason: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"GGUF has no uneven architecture for {type(model).__name__}: {reason}.", LISTED
    )


@torch.no_grad()
def _compare(model: Any, decoder: Decoder) -> None:
    """Refuse a model that does not compute what `logits` computes."""
    generator = torch.Generator().manual_seed(0)
    size = min(PROBE, decoder.context)
    ids = torch.randint(len(decoder.embeddings), (size,), generator=generator)
    expected = model(input_ids=ids[None].to(model.device), use_cache=False).logits[0].float().cpu()
    gaps = (logits(decoder, ids) - expected).abs().amax(1) / expected.abs().max()
    # half precision may round one unlucky token far off, and a wrong computation most of them
    is_half = model.dtype in (torch.float16, torch.bfloat16)
    gap = float(gaps.median() if is_half else gaps.max())
    if not gap <= LIMITS[model.dtype]:
        raise _refusal(
            model,
            "it computes something else than plain layers of attention and feed-forward "
            f"(its logits differ by {gap:.1e} of the largest)",
        )


@torch.no_grad()
def logits(decoder: Decoder, ids: Tensor) -> Tensor:
    """The logits after each of these tokens, tokens x vocabulary, in float32."""
    x = embedding(ids.to(decoder.embeddings.device), decoder.embeddings).float()
    angles = torch.arange(len(ids))[:, None] * decoder.frequencies.repeat(2)
    turn = (angles.cos() * decoder.magnitude).to(x), (angles.sin() * decoder.magnitude).to(x)
    for layer in decoder.layers:
        if layer.queries.weight.numel():
            x = x + _attention(decoder, layer, _normed(decoder, x, layer.attention_norm), turn)
        elif layer.output.bias is not None:
            x = x + layer.output.bias.float()
        normed = _normed(decoder, x, layer.feed_forward_norm)
        x = x + layer.down(silu(layer.gate(normed)) * layer.up(normed))
    matrix = decoder.embeddings if decoder.output is None else decoder.output
    return linear(_normed(decoder, x, decoder.norm), matrix.float()).cpu()


def _attention(decoder: Decoder, layer: Layer, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    q, k, v = (
        projection(x).unflatten(-1, (-1, decoder.width)).transpose(0, 1)
        for projection in (layer.queries, layer.keys, layer.values)
    )
    if layer.query_norm is not None and layer.key_norm is not None:
        q, k = _normed(decoder, q, layer.query_norm), _normed(decoder, k, layer.key_norm)
    q, k = _turned(q, turn), _turned(k, turn)
    k, v = (t.repeat_interleave(len(q) // len(k), 0) for t in (k, v))
    context = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    return layer.output(context.transpose(0, 1).flatten(1))


def _normed(decoder: Decoder, x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + decoder.epsilon) * weight.float()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-second, first], -1) * turn[1]
