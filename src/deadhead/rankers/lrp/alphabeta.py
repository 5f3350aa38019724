"""The alpha-beta rule of layer-wise relevance propagation: how relevance goes to the inputs.

For any function with inputs x, Jacobian J and value y0 at zero input, an input's part in an output
is z_ji = J_ji x_i + y0_j / n_in, and the relevance of output j goes to its inputs in proportion to
it, positive and negative parts apart:

    R_i = sum_j R_j (ALPHA z+_ji / (sum_i z+_ji + STABILISER)
                   + BETA z-_ji / (sum_i z-_ji - STABILISER))

Both ratios are non-negative, so positive relevance stays positive. After every operation the
relevance of its inputs is scaled, example by example, so that the sum of |R| is kept. `ruled`
attaches such a rule to autograd, with relevance instead of the gradient: whatever only moves
numbers (reshape, transpose, index) passes relevance on as it passes on gradients.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .flow import Weigh, Weight, present_heads

ALPHA = BETA = 0.5
STABILISER = 1e-5
# entries of z computed at a time: on a CPU few enough for its cache, which is twice as fast
ENTRIES_AT_ONCE = {"cpu": 2**21}
ENTRIES_ELSEWHERE = 2**26

Rule = Callable[..., tuple[Tensor, ...]]


class AlphaBeta:
    """The rules of Voita et al. Relevance is the gradient itself; activations keep it."""

    def linear(self, x: Tensor, weight: Tensor, bias: Weight = None) -> Tensor:
        here = present_heads(x)
        return ruled(F.linear(x, weight, bias), lambda r, x: (dense(r, x, weight, bias, here),), x)

    def layer_norm(self, x: Tensor, weight: Weight, bias: Weight, eps: float) -> Tensor:
        output = F.layer_norm(x, x.shape[-1:], weight, bias, eps)
        return ruled(output, lambda r, x: (layer_norm(r, x, weight, bias, eps),), x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return ruled(x + y, added, x, y)

    def one_to_one(self, x: Tensor, output: Tensor) -> Tensor:
        return ruled(output, lambda r, x: (r,), x)

    shift = scale = activation = one_to_one  # a single input has nothing to share with

    def attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float, weigh: Weigh) -> Tensor:
        weights = weigh(q.detach() @ k.detach().transpose(-2, -1) * scale)
        rule = partial(attention, weights=weights, scale=scale)
        return ruled(weights @ v.detach(), rule, q, k, v)

    def relevance(self, activation: Tensor, gradient: Tensor) -> Tensor:
        return gradient


def ruled(output: Tensor, rule: Rule, *inputs: Tensor) -> Tensor:
    """The unchanged output, whose relevance goes to the inputs by `rule(relevance, *inputs)`."""
    return _Ruled.apply(output.detach(), rule, *inputs)


class _Ruled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, rule: Rule, *inputs: Tensor) -> Tensor:
        ctx.rule = rule
        ctx.save_for_backward(*inputs)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> Any:
        inputs = ctx.saved_tensors
        wide = torch.promote_types(relevance[0].dtype, torch.float32)
        arrived = relevance[0].to(wide)
        parts = rescaled(ctx.rule(arrived, *(x.to(wide) for x in inputs)), arrived)
        pairs = zip(parts, inputs, strict=True)
        return None, None, *(part.sum_to_size(x.shape).to(x.dtype) for part, x in pairs)


def rescaled(parts: tuple[Tensor, ...], arrived: Tensor) -> tuple[Tensor, ...]:
    """The inputs' relevance, scaled so that each example's sum of |R| is what arrived."""
    kept = arrived.abs().flatten(1).sum(1)
    passed = reduce(torch.add, (part.abs().flatten(1).sum(1) for part in parts))
    factor = torch.where(passed > 0, kept / passed, torch.zeros_like(kept))
    return tuple(part * factor.view(-1, *[1] * (part.dim() - 1)) for part in parts)


def ratio(relevance: Tensor, weight: float, total: Tensor, sign: int) -> Tensor:
    """What each output pays per unit of z of one sign, `total` being the sum of those z."""
    return weight * relevance / (total + sign * STABILISER)


def to_inputs(relevance: Tensor, z: Tensor) -> Tensor:
    """The rule for outputs x inputs: relevance [..., out] and z [..., out, in] -> [..., in]."""
    plus, minus = _signs(z)
    pays_plus = ratio(relevance, ALPHA, plus.sum(-1), 1)
    pays_minus = ratio(relevance, BETA, minus.sum(-1), -1)
    return (pays_plus.unsqueeze(-2) @ plus + pays_minus.unsqueeze(-2) @ minus).squeeze(-2)


def _at_once(x: Tensor, entries: int) -> int:
    """How many rows to compute at a time, each with this number of entries of z."""
    return max(1, ENTRIES_AT_ONCE.get(x.device.type, ENTRIES_ELSEWHERE) // max(1, entries))


def dense(
    relevance: Tensor, x: Tensor, weight: Tensor, bias: Weight, present: Tensor | None = None
) -> Tensor:
    """A linear layer; the bias is shared equally by the inputs.

    present: the inputs that count, where some heads are closed.
    """
    if present is not None:
        inside = dense(relevance, x[..., present], weight[:, present], bias)
        return torch.zeros_like(x).index_copy(-1, present, inside)
    # skip outputs and rows without relevance: most, where one logit or position is explained
    flat, weight = relevance.flatten(0, -2), weight.to(x.dtype)
    rows, outs = flat.any(1).nonzero().flatten(), flat.any(0).nonzero().flatten()
    part, inputs = flat[rows][:, outs], x.flatten(0, -2)[rows]
    weight = weight[outs]
    share = torch.zeros_like(weight[:, :1])
    if bias is not None:
        share = bias[outs].to(x.dtype).unsqueeze(1) / x.shape[-1]
    result = torch.zeros_like(x).flatten(0, -2)
    step = _at_once(x, weight.numel())
    for i in range(0, len(rows), step):
        z = torch.addcmul(share, weight, inputs[i : i + step].unsqueeze(1))
        result[rows[i : i + step]] = to_inputs(part[i : i + step], z)
    return result.view_as(x)


def layer_norm(relevance: Tensor, x: Tensor, weight: Weight, bias: Weight, eps: float) -> Tensor:
    """Layer norm over the last axis, with its full Jacobian."""
    size = x.shape[-1]
    flat = relevance.flatten(0, -2)
    rows = flat.any(1).nonzero().flatten()
    if not len(rows):
        return torch.zeros_like(x)
    inputs = x.flatten(0, -2)[rows]
    inverse = (inputs.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
    normal = (inputs - inputs.mean(-1, keepdim=True)) * inverse
    scale = inverse if weight is None else inverse * weight.to(x.dtype)
    share = x.new_zeros(size) if bias is None else bias.to(x.dtype) / size
    result = torch.zeros_like(x).flatten(0, -2)
    step = _at_once(x, size**2)
    unit = torch.eye(size, dtype=x.dtype, device=x.device) - 1 / size
    for i in range(0, len(rows), step):
        here = slice(i, i + step)
        outer = normal[here].unsqueeze(2) * normal[here].unsqueeze(1)
        jacobian = (unit - outer / size) * scale[here].expand(-1, size).unsqueeze(2)
        z = jacobian * inputs[here].unsqueeze(1) + share.unsqueeze(1)
        result[rows[here]] = to_inputs(flat[rows[here]], z)
    return result.view_as(x)


def added(relevance: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A sum of two terms, as at a residual connection."""
    x, y = torch.broadcast_tensors(x, y)
    plus = ratio(relevance, ALPHA, x.clamp(min=0) + y.clamp(min=0), 1)
    minus = ratio(relevance, BETA, x.clamp(max=0) + y.clamp(max=0), -1)
    to_x, to_y = (plus * term.clamp(min=0) + minus * term.clamp(max=0) for term in (x, y))
    return to_x, to_y


def attention(relevance: Tensor, *qkv: Tensor, weights: Tensor, scale: float) -> tuple[Tensor, ...]:
    """From a head's output to its queries, keys and values, with the full Jacobian of the softmax.

    Tensors are batch x heads x positions x width; `weights` are the attention weights.
    """
    inputs = [x.flatten(0, 1) for x in qkv]
    results = [torch.zeros_like(x) for x in inputs]
    flat, weights = relevance.flatten(0, 1), weights.flatten(0, 1).to(qkv[0].dtype)
    heads = flat.flatten(1).any(1).nonzero().flatten()
    step = _at_once(qkv[2], weights[0].numel() * qkv[2].shape[-1])
    for i in range(0, len(heads), step):
        here = heads[i : i + step]
        parts = _attention_of_heads(flat[here], [x[here] for x in inputs], weights[here], scale)
        for result, part in zip(results, parts, strict=True):
            result[here] = part
    return tuple(result.view_as(x) for result, x in zip(results, qkv, strict=True))


def _signs(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.clamp(min=0), z.clamp(max=0)


# Axes: n heads of sentences, t queries, s keys, d widths of values, e widths of queries and keys.


def _attention_of_heads(
    relevance: Tensor, qkv: Sequence[Tensor], weights: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = qkv
    v_plus, v_minus = _signs(torch.einsum("nts,nsd->ntsd", weights, v))
    # d context / d query: the values attended to, each by the distance of its key from the mean
    mean = torch.einsum("nte,ntd->ntde", weights @ k, weights @ v)
    tilt = torch.einsum("nts,nse,nsd->ntde", weights, k, v) - mean
    q_plus, q_minus = _signs(scale * tilt * q.unsqueeze(2))
    # z of the keys has axes t s d e, too many to compute; but it is a product of (t s d) and
    # (t s e), and so are its signs
    up, down = _signs(scale * weights.unsqueeze(3) * (v.unsqueeze(1) - (weights @ v).unsqueeze(2)))
    more, less = _signs(q.unsqueeze(2) * k.unsqueeze(1))
    all_more, all_less = more.sum(3, keepdim=True), less.sum(3, keepdim=True)
    total_plus = v_plus.sum(2) + q_plus.sum(3) + (up * all_more + down * all_less).sum(2)
    total_minus = v_minus.sum(2) + q_minus.sum(3) + (up * all_less + down * all_more).sum(2)
    pays_plus = ratio(relevance, ALPHA, total_plus, 1)
    pays_minus = ratio(relevance, BETA, total_minus, -1)

    def paid(pattern: str, plus: Tensor, minus: Tensor) -> Tensor:
        return torch.einsum(pattern, pays_plus, plus) + torch.einsum(pattern, pays_minus, minus)

    for_more, for_less = paid("ntd,ntsd->nts", up, down), paid("ntd,ntsd->nts", down, up)
    to_keys = torch.einsum("nts,ntse->nse", for_more, more)
    to_keys = to_keys + torch.einsum("nts,ntse->nse", for_less, less)
    return paid("ntd,ntde->nte", q_plus, q_minus), to_keys, paid("ntd,ntsd->nsd", v_plus, v_minus)
