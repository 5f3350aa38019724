"""One update of the weights: forward and backward over the parts of a batch, clipping, AdamW.

Nothing here asks the device anything, and all state is tensors that stay where they are, so the very
same code is run step by step or captured once as a CUDA graph. In bf16 the model computes in
bfloat16 throughout, while `masters`, the weights that are updated, stay in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .feed import Feed, Shape
from .loss import loss_sum
from .settings import Settings

BARE = ("bias", "norm")  # parameters with these in their names, or of one axis, do not decay
SINUSOIDS = "embed_positions.weights"  # added to the embeddings: in float32 they would raise all that follows


class Updater:
    """A model with the state of its optimizer."""

    def __init__(self, model: Any, feed: Feed, settings: Settings):
        self.model, self.feed, self.settings = model, feed, settings
        # a layer that has lost every head leaves weights of size 0, which no optimizer kernel takes
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.numel()]
        self.names, self.params = [n for n, _ in named], [p for _, p in named]
        self.decays = [
            p.dim() > 1 and not any(word in name.lower() for word in BARE) for name, p in named
        ]
        self.low = settings.precision == "bf16"
        self.masters = (
            [p.detach().clone() for p in self.params]
            if self.low
            else [p.detach() for p in self.params]
        )
        self.first = [torch.zeros_like(m) for m in self.masters]
        self.second = [torch.zeros_like(m) for m in self.masters]
        self.count = torch.zeros((), dtype=torch.float32, device=feed.device)
        self.gradients = [torch.zeros_like(m) for m in self.masters] if self.low else []
        self.frozen = {
            n: p.detach().clone()
            for n, p in model.named_parameters()
            if self.low and not p.requires_grad
        }
        self.sinusoids = {
            n: b.detach().clone()
            for n, b in model.named_buffers()
            if self.low and n.endswith(SINUSOIDS)
        }
        if self.low:
            lower(model, torch.bfloat16)

    def __call__(self, numbers: Tensor, shapes: Sequence[Shape], rate: float | Tensor) -> Tensor:
        """Train on these windows, run in parts of these shapes; the mean loss over their labels, on the device."""
        loss = self.backward(numbers, shapes)
        self.apply(loss, rate)
        return loss

    def backward(self, numbers: Tensor, shapes: Sequence[Shape]) -> Tensor:
        """Gradients of the mean loss over all labels of the batch, the same in however many parts."""
        total = self.feed.labelled(numbers)
        whole = torch.zeros((), device=self.feed.device)
        begin = 0
        for shape in shapes:
            batch = self.feed(numbers[begin : begin + shape.rows], shape)
            loss = loss_sum(self.model, batch, self.settings.smoothing) / total
            loss.backward()
            whole = whole + loss.detach()
            begin += shape.rows
        return whole

    @torch.no_grad()
    def apply(self, loss: Tensor, rate: float | Tensor) -> None:
        """Clip and step. A batch whose loss or gradient is not finite leaves the weights as they are, and its loss becomes nan."""
        there = [i for i, p in enumerate(self.params) if p.grad is not None]
        gradients = [self.params[i].grad for i in there]
        if self.low:
            kept = [self.gradients[i] for i in there]
            torch._foreach_copy_(kept, gradients)
            gradients = kept
        norm, clip = nn.utils.get_total_norm(gradients), self.settings.clip
        scale = (
            None if clip is None else (norm / clip).clamp(min=1.0).float()
        )  # the optimizer divides by it on the way
        finite = torch.isfinite(loss) & torch.isfinite(norm)
        self._adamw(there, gradients, rate, scale, (~finite).float())
        if self.low:
            torch._foreach_copy_([self.params[i] for i in there], [self.masters[i] for i in there])
        self.forget()
        loss.masked_fill_(~finite, math.nan)

    def _adamw(
        self,
        there: list[int],
        gradients: list[Any],
        rate: float | Tensor,
        scale: Tensor | None,
        broken: Tensor,
    ) -> None:
        self.count += 1
        beta1, beta2 = self.settings.betas
        for decays in (True, False):
            mine = [
                (i, g) for i, g in zip(there, gradients, strict=True) if self.decays[i] is decays
            ]
            if not mine:
                continue
            torch._fused_adamw_(
                [self.masters[i] for i, _ in mine], [g for _, g in mine], [self.first[i] for i, _ in mine],
                [self.second[i] for i, _ in mine], [], [self.count] * len(mine), lr=rate, beta1=beta1, beta2=beta2,
                weight_decay=self.settings.decay if decays else 0.0, eps=self.settings.epsilon, amsgrad=False, maximize=False,
                grad_scale=scale, found_inf=broken,
            )  # fmt: skip

    def forget(self) -> None:
        for p in self.params:
            p.grad = None

    def weights(self) -> dict[str, Tensor]:
        """The weights as they are trained, by name; not copied. Those frozen and the buffers are among them."""
        found = {name: tensor.detach() for name, tensor in stored(self.model)}
        return found | self.frozen | dict(zip(self.names, self.masters, strict=True))

    def moments(self) -> dict[str, Tensor]:
        """The state of the optimizer, by name; not copied."""
        found = {f"first/{n}": t for n, t in zip(self.names, self.first, strict=True)}
        return (
            found
            | {f"second/{n}": t for n, t in zip(self.names, self.second, strict=True)}
            | {"count": self.count}
        )

    @torch.no_grad()
    def restore(self, weights: dict[str, Tensor], moments: dict[str, Tensor]) -> None:
        for mine, theirs in ((self.weights(), weights), (self.moments(), moments)):
            for name, tensor in mine.items():
                tensor.copy_(theirs[name])
        if self.low:
            torch._foreach_copy_(self.params, self.masters)

    def close(self) -> None:
        """Leave the model as it was found, with its weights in full precision."""
        self.forget()
        if self.low:
            lower(self.model, torch.float32)
            own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
                for name, kept in (self.frozen | self.sinusoids).items():
                    own[name].copy_(kept)


def lower(model: nn.Module, dtype: torch.dtype) -> None:
    """Change the type of the weights; buffers keep theirs, as those of a model loaded in that type would, but for sinusoids."""
    for p in model.parameters():
        if p.is_floating_point():
            p.data = p.data.to(dtype)
    for name, buffer in model.named_buffers():
        if name.endswith(SINUSOIDS):
            buffer.data = buffer.data.to(dtype)


def stored(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model's state, each once though it may have two names."""
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor
