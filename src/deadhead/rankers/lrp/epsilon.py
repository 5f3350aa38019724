"""LRP by the epsilon rule as one modified backward pass (AttnLRP).

Relevance is activation x gradient. With a vanishing stabiliser, the epsilon rule of a linear
operation is gradient x input, so linear layers and residual sums need no change. The rest is
adapted: the standard deviation of a layer norm counts as constant, f(x) as x times the constant
f(x)/x, a product of two activations gives half of its relevance to each, and the softmax keeps its
gradient.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .flow import Weigh, Weight

TINY = 1e-10  # keeps f(x) / x finite


class Epsilon:
    """The rules of AttnLRP."""

    def linear(self, x: Tensor, weight: Tensor, bias: Weight = None) -> Tensor:
        return F.linear(x, weight, bias)

    def layer_norm(self, x: Tensor, weight: Weight, bias: Weight, eps: float) -> Tensor:
        return _ConstantDeviation.apply(x, weight, bias, eps)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def shift(self, x: Tensor, output: Tensor) -> Tensor:
        return output

    scale = shift  # by a constant: the gradient is right as it is

    def activation(self, x: Tensor, output: Tensor) -> Tensor:
        return _Times.apply(x, output.detach(), (output / (x + TINY)).detach())

    def attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float, weigh: Weigh) -> Tensor:
        return halved(weigh(halved(q @ k.transpose(-2, -1) * scale)) @ v)

    def relevance(self, activation: Tensor, gradient: Tensor) -> Tensor:
        return activation * gradient


def halved(product: Tensor) -> Tensor:
    """The same value with half the gradient, since both factors would get all of the relevance."""
    return _Times.apply(product, product.detach(), 0.5)


class _Times(torch.autograd.Function):
    """A value that counts as x times a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, constant: Tensor | float) -> Tensor:
        ctx.constant = constant
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> Any:
        return gradient[0] * ctx.constant, None, None


class _ConstantDeviation(torch.autograd.Function):
    """Layer norm over the last axis whose standard deviation counts as constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Weight, bias: Weight, eps: float) -> Tensor:
        output, _, inverse = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
        ctx.scale = (inverse if weight is None else inverse * weight).to(x.dtype)
        return output

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> Any:
        centred = gradient[0] * ctx.scale
        return centred - centred.mean(-1, keepdim=True), None, None, None
