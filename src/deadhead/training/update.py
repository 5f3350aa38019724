"""One update of the weights: the loss over the parts of a batch, its gradients, clipping, AdamW.

Nothing here waits for the device, and all state is tensors that stay in place, so the same code
runs step by step or is captured once as a CUDA graph. In bf16 the model computes in bfloat16, while
`masters`, the weights that are updated, stay in float32.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.forward import IGNORED, forward, precise, predicts_next
from deadhead.rankers.loss import class_logits
from deadhead.tasks.encoding.feed import Feed, Shape

from .settings import Settings

UNDECAYED = ("bias", "norm")  # no decay for parameters with these in their names, or of one axis
# Families whose encoder takes a mask of four axes as it is. With the usual mask of two axes
# transformers asks the device at every step whether it hides anything, and waits for the answer.
READY_MASKS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
SINUSOIDS = "embed_positions.weights"  # in float32 these would raise the precision of all layers


class Updater:
    """A model with the state of its optimizer."""

    def __init__(self, model: Any, feed: Feed, settings: Settings):
        self.model = model
        self.feed = feed
        self.settings = settings
        # a layer without heads has weights of size 0, which no optimizer kernel accepts
        named = {n: p for n, p in model.named_parameters() if p.requires_grad and p.numel()}
        self.names = [*named]
        self.params = [*named.values()]
        self.decays = [
            p.dim() > 1 and not any(word in name.lower() for word in UNDECAYED)
            for name, p in named.items()
        ]
        self.half = settings.precision == "bf16"
        self.masters = [p.detach().clone() if self.half else p.detach() for p in self.params]
        self.first = [torch.zeros_like(m) for m in self.masters]  # moments of AdamW
        self.second = [torch.zeros_like(m) for m in self.masters]
        self.count = torch.zeros((), dtype=torch.float32, device=feed.device)
        self.gradients: list[Tensor] = []  # in float32
        self.originals: dict[str, Tensor] = {}  # frozen weights and sinusoids, in float32
        self.frozen: dict[str, Tensor] = {}
        if self.half:
            self.gradients = [torch.zeros_like(m) for m in self.masters]
            parameters = model.named_parameters()
            self.frozen = {n: p.detach().clone() for n, p in parameters if not p.requires_grad}
            buffers = [(n, b) for n, b in model.named_buffers() if n.endswith(SINUSOIDS)]
            self.originals = self.frozen | {n: b.detach().clone() for n, b in buffers}
            set_precision(model, torch.bfloat16)

    def __call__(self, numbers: Tensor, shapes: Sequence[Shape], rate: float | Tensor) -> Tensor:
        """Train on these windows, in parts of these shapes; returns the mean loss of the labels."""
        loss = self.backward(numbers, shapes)
        self.apply(loss, rate)
        return loss

    def backward(self, numbers: Tensor, shapes: Sequence[Shape]) -> Tensor:
        """Gradients of the mean loss over all labels of the batch, whatever its parts."""
        labels = self.feed.labelled(numbers)
        total = torch.zeros((), device=self.feed.device)
        begin = 0
        for shape in shapes:
            batch = self.feed(numbers[begin : begin + shape.rows], shape)
            loss = self.loss_sum(batch) / labels
            loss.backward()
            total = total + loss.detach()
            begin += shape.rows
        return total

    def loss_sum(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The sum of the losses of all labels; several models at once have one of their own."""
        return loss_sum(self.model, batch, self.settings.smoothing)

    @torch.no_grad()
    def apply(self, loss: Tensor, rate: float | Tensor) -> None:
        """Clip the gradients and update the weights.

        If the loss or a gradient is not finite, the weights do not change and the loss becomes nan.
        """
        places = [i for i, p in enumerate(self.params) if p.grad is not None]
        gradients = [self.params[i].grad for i in places]
        if self.half:
            full = [self.gradients[i] for i in places]
            torch._foreach_copy_(full, gradients)
            gradients = full
        norm = nn.utils.get_total_norm(gradients)
        clip = self.settings.clip
        # the optimizer divides the gradients by this
        scale = None if clip is None else (norm / clip).clamp(min=1.0).float()
        finite = torch.isfinite(loss) & torch.isfinite(norm)
        self._adamw(dict(zip(places, gradients, strict=True)), rate, scale, (~finite).float())
        if self.half:
            params, masters = ([all[i] for i in places] for all in (self.params, self.masters))
            torch._foreach_copy_(params, masters)
        self.forget()
        loss.masked_fill_(~finite, math.nan)

    def _adamw(
        self, gradients: dict[int, Any], rate: float | Tensor, scale: Tensor | None, skip: Tensor
    ) -> None:
        self.count += 1
        beta1, beta2 = self.settings.betas
        for decays in (True, False):
            places = [i for i in gradients if self.decays[i] is decays]
            if not places:
                continue
            torch._fused_adamw_(  # an operator of torch: its lists of tensors have no names
                [self.masters[i] for i in places],
                [gradients[i] for i in places],
                [self.first[i] for i in places],
                [self.second[i] for i in places],
                [],
                [self.count] * len(places),
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                weight_decay=self.settings.decay if decays else 0.0,
                eps=self.settings.epsilon,
                amsgrad=False,
                maximize=False,
                grad_scale=scale,
                found_inf=skip,
            )

    def forget(self) -> None:
        """Drop the gradients."""
        for p in self.params:
            p.grad = None

    def weights(self) -> dict[str, Tensor]:
        """The weights in training precision, frozen ones and buffers included; not copied."""
        weights = {name: tensor.detach() for name, tensor in stored(self.model)}
        return weights | self.frozen | dict(zip(self.names, self.masters, strict=True))

    def moments(self) -> dict[str, Tensor]:
        """The state of the optimizer, by name; not copied."""
        first = {f"first/{n}": t for n, t in zip(self.names, self.first, strict=True)}
        second = {f"second/{n}": t for n, t in zip(self.names, self.second, strict=True)}
        return {**first, **second, "count": self.count}

    @torch.no_grad()
    def restore(self, weights: dict[str, Tensor], moments: dict[str, Tensor]) -> None:
        for mine, saved in ((self.weights(), weights), (self.moments(), moments)):
            for name, tensor in mine.items():
                tensor.copy_(saved[name])
        if self.half:
            torch._foreach_copy_(self.params, self.masters)

    def close(self) -> None:
        """Give the model back with its weights in full precision."""
        self.forget()
        if self.half:
            set_precision(self.model, torch.float32)
            own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
                for name, original in self.originals.items():
                    own[name].copy_(original)


def set_precision(model: nn.Module, dtype: torch.dtype) -> None:
    """Change the type of the weights. Buffers keep theirs, as when loading, except sinusoids."""
    for p in model.parameters():
        if p.is_floating_point():
            p.data = p.data.to(dtype)
    for name, buffer in model.named_buffers():
        if name.endswith(SINUSOIDS):
            buffer.data = buffer.data.to(dtype)


def stored(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model's state, each once though it may have two names."""
    seen = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def loss_sum(model: Any, batch: Mapping[str, Tensor], smoothing: float = 0.0) -> Tensor:
    """The summed loss of all labels in the batch; divide by their number for the mean."""
    labels = batch["labels"]
    outputs = forward(model, ready(model, batch))
    if labels.is_floating_point():  # scores, as the number of a regression
        return ((precise(outputs.logits)[:, 0] - labels).square() * (labels != IGNORED)).sum()
    logits = class_logits(outputs, batch)
    if predicts_next(model, labels):
        logits, labels = logits[:, :-1], labels[:, 1:]
    return F.cross_entropy(
        precise(logits).reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )


def ready(model: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The batch with a mask of four axes, for models that take one, on a GPU."""
    config, mask = getattr(model, "config", None), batch.get("attention_mask")
    if (
        mask is None
        or not mask.is_cuda
        or mask.dim() != 2
        or getattr(config, "model_type", "") not in READY_MASKS
        or getattr(config, "_attn_implementation", "") not in ("sdpa", "eager")
        or getattr(config, "is_decoder", False)
    ):
        return dict(batch)
    dtype = next(p.dtype for p in model.parameters())
    return {**batch, "attention_mask": additive(mask, dtype)}


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of batch x tokens as a term of attention scores: batch x 1 x tokens x tokens."""
    added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    added.masked_fill_(mask == 0, torch.finfo(dtype).min)
    return added[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
