"""The loss of each example on its own, for every kind of model in the same way.

An example's loss is the mean cross-entropy over its labelled tokens (for a sentence classifier, of
its one label; for question answering, of the start and the end of the answer among its tokens). A
model's own `loss` is the mean over all tokens of the batch, where long sentences weigh more; here
an example has the same loss in every batch, padded or not.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.errors import DataError
from deadhead.forward import (
    IGNORED,
    finds_answers,
    forward,
    is_encoder_decoder,
    on_device,
    predicts_next,
    real_tokens,
)
from deadhead.layout import Batch

# Further entries of a batch that is measured by another loss than that of labels: label_free.py.
LOSS, TARGET, SEEDS = "deadhead.loss", "deadhead.target", "deadhead.seeds"
CORRUPT = "deadhead.corrupt"  # the batch whose run fills closed heads: head_copies.py
NUMBERS_AT_ONCE = 1 << 24  # logits in float32: 64 MB
SPANS = ("start_logits", "end_logits")  # of a model of question answering, batch x tokens
# What a model reads; a batch has one of these.
INPUTS = ("input_ids", "inputs_embeds", "input_features", "input_values", "pixel_values")


def output_kind(model: nn.Module, batch: Batch) -> str:
    """What the model predicts for this batch: `classify`, `tag`, `seq2seq` or `causal`.

    A masked language model counts as a tagger: its labels are where its predictions are. So does a
    model of question answering.
    """
    labels, target = batch.get("labels"), batch.get(TARGET)
    if labels is None or target is not None:
        return "classify" if target is not None and target.dim() == 2 else "tag"
    if labels.dim() == 1:
        return "classify"
    if is_encoder_decoder(model):
        return "seq2seq"
    return "causal" if predicts_next(model, labels) else "tag"


def right_padded(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The batch with its padding on the right, so that no number depends on the padding side.

    With padding on the left, the first token of a decoder would be predicted from a padding
    position, models that count positions would count the padding, and queries that may read
    nothing make some kernels return nan.
    """
    labels_of_decoder = is_encoder_decoder(model)
    of_decoder = {
        name: value
        for name, value in batch.items()
        if name.startswith("decoder_") or (labels_of_decoder and name == "labels")
    }
    others = {name: value for name, value in batch.items() if name not in of_decoder}
    positions = others.pop("labels") if finds_answers(model) and "labels" in others else None
    rolled = _rolled(others, "attention_mask") | _rolled(of_decoder, "decoder_attention_mask")
    mask = batch.get("attention_mask")
    if positions is not None and mask is not None and mask.dim() == 2:
        before = _padding_before(mask).to(positions.device)
        rolled["labels"] = positions.where(positions == IGNORED, positions - before)
    return {**batch, **rolled}


def _rolled(batch: Batch, name: str) -> dict[str, Tensor]:
    """The tensors of batch x tokens with the padding before each row moved behind it."""
    mask = batch.get(name)
    if mask is None or mask.dim() != 2:
        return {}
    before = _padding_before(mask)
    if not bool(before.any()):
        return {}
    index = (torch.arange(mask.shape[1], device=mask.device) + before) % mask.shape[1]
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    tensors = {n: t for n, t in batch.items() if isinstance(t, Tensor)}
    aligned = {n: t for n, t in tensors.items() if t.shape[:2] == mask.shape}
    return {n: t[rows.to(t.device), index.to(t.device)] for n, t in aligned.items()}


def _padding_before(mask: Tensor) -> Tensor:
    """How much padding is before each row, batch x 1; a row of padding has none before it."""
    return (mask != 0).long().cumsum(1).eq(0).sum(1, keepdim=True) % mask.shape[1]


def example_losses(model: nn.Module, batch: Batch) -> Tensor:
    """The loss of each example, on the model's device; 0 for an example without a label."""
    batch = on_device(right_padded(model, batch), model)
    return losses_from(model, batch, forward(model, batch))


def losses_from(model: nn.Module, batch: Batch, outputs: Any) -> Tensor:
    """The loss of each example: the batch's own loss, or the cross-entropy of its labels."""
    if LOSS in batch:
        losses: Tensor = batch[LOSS](outputs, batch)
        return losses
    logits, shifted = class_logits(outputs, batch), output_kind(model, batch) == "causal"
    return losses_of(logits, batch["labels"], shifted=shifted)


def class_logits(outputs: Any, batch: Batch) -> Tensor:
    """The logits whose classes labels name: of question answering, batch x 2 x tokens.

    Padding is neither the start nor the end of an answer.
    """
    if not has_spans(outputs):
        logits: Tensor = outputs.logits
        return logits
    spans, real = output_of(outputs), positions_of(outputs, batch)
    assert spans is not None
    assert real is not None  # both for mypy
    # two infinities would have no difference
    return spans.masked_fill(real[..., None] == 0, torch.finfo(spans.dtype).min).transpose(1, 2)


def losses_and_right(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """The loss of each example and how many of its labelled tokens are predicted right.

    Both in double precision; no number (nan) is right where the loss needs no labels.
    """
    outputs = forward(model, batch)
    losses = losses_from(model, batch, outputs)
    right = torch.full_like(losses, math.nan)
    if LOSS not in batch:
        logits, labels = class_logits(outputs, batch), batch["labels"]
        if output_kind(model, batch) == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        if not labels.is_floating_point():  # no score is exactly right
            correct = (logits.argmax(-1) == labels) & (labels != IGNORED)
            right = correct.reshape(len(labels), -1).sum(1)
    precise = torch.float32 if losses.device.type == "mps" else torch.float64
    return losses.to(precise), right.to(precise)


def losses_of(logits: Tensor, labels: Tensor, *, shifted: bool = False) -> Tensor:
    """The cross-entropy of each example, or the squared error of its score.

    shifted: a position predicts the next one's label.
    """
    if labels.is_floating_point():
        return (logits[:, 0].float() - labels).square() * (labels != IGNORED)
    if logits.dtype in (torch.float16, torch.bfloat16):
        cross_entropy: Callable[[Tensor, Tensor], Tensor] = _HalfCrossEntropy.apply
        if shifted:  # the labels, since a slice of the logits would be a copy of them
            labels = F.pad(labels[:, 1:], (0, 1), value=IGNORED)
    else:
        cross_entropy = _cross_entropy
        if shifted:
            logits, labels = logits[:, :-1], labels[:, 1:]
    losses = cross_entropy(logits.flatten(0, -2), labels.flatten()).view(labels.shape)
    if labels.dim() == 1:
        return losses
    return losses.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


_cross_entropy = partial(F.cross_entropy, ignore_index=IGNORED, reduction="none")


class _HalfCrossEntropy(torch.autograd.Function):
    """The cross-entropy of each row of logits in half precision, computed in float32.

    It keeps the logits alone, and works on some rows at a time: the logits of a language model are
    its largest activations by far, and a copy in float32 would be twice as large.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(logits, labels)
        size = _rows_at_once(logits)
        parts = [
            _cross_entropy(some.float(), of_some)
            for some, of_some in zip(logits.split(size), labels.split(size), strict=True)
        ]
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        factors = torch.where(labels == IGNORED, 0, arriving[0])
        gradient, size = torch.empty_like(logits), _rows_at_once(logits)
        targets = labels.clamp(min=0)
        for begin in range(0, len(logits), size):
            rows = slice(begin, begin + size)
            chances = logits[rows].float().softmax(-1)
            numbers = torch.arange(len(chances), device=chances.device)
            chances[numbers, targets[rows]] -= 1
            gradient[rows] = chances.mul_(factors[rows, None])
        return gradient, None


def _rows_at_once(logits: Tensor) -> int:
    """How many rows of logits are in float32 at a time."""
    return max(1, NUMBERS_AT_ONCE // logits.shape[-1])


def labelled_tokens(model: nn.Module, batch: Batch) -> Tensor:
    """Over how many tokens the loss of each example is a mean; 1 where it is no such mean."""
    labels = batch.get("labels")
    if LOSS in batch or labels is None or labels.dim() == 1:
        return torch.ones(examples_of(batch))
    if output_kind(model, batch) == "causal":
        labels = labels[:, 1:]
    return (labels != IGNORED).sum(1).clamp(min=1)


def examples_of(batch: Batch) -> int:
    """How many examples a batch has."""
    labels = batch.get("labels")
    return len(attended(batch) if labels is None else labels)


def tokens_of(batches: Iterable[Batch]) -> int:
    """How many tokens batches have, without padding."""
    return sum(int(attended(batch).sum()) for batch in batches)


def has_spans(outputs: Any) -> bool:
    """Whether the outputs are which tokens an answer may start and end at, and no other logits."""
    logits = {
        name: value
        for name, value in named_outputs(outputs).items()
        if name.endswith("logits") and isinstance(value, Tensor)
    }
    return logits.keys() == {*SPANS} and all(value.dim() == 2 for value in logits.values())


def named_outputs(outputs: Any) -> dict[str, Any]:
    """What a forward pass gave, by name; nothing where it is a plain tuple."""
    return getattr(outputs, "__dict__", {})


def output_of(outputs: Any) -> Tensor | None:
    """The result of a forward pass: its logits, or the hidden states of the last layer.

    Of a model of question answering: the logits of starts and of ends, batch x tokens x 2.
    """
    if has_spans(outputs):
        return torch.stack([getattr(outputs, name) for name in SPANS], -1)
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(outputs, name, None), Tensor):
            return getattr(outputs, name)
    return None


def positions_of(outputs: Any, batch: Batch) -> Tensor | None:
    """Which positions of the output are no padding; None where each example has only one."""
    output = output_of(outputs)
    if output is None or output.dim() < 3:
        return None
    real: Tensor | None = attended(batch)
    if getattr(outputs, "encoder_last_hidden_state", None) is not None:  # positions of the decoder
        real = real_tokens(batch, decoder=True)
    patches = output.shape[1] - (0 if real is None else real.shape[1])
    if real is not None and patches > 0 and has_spans(outputs):
        real = F.pad(real, (0, patches), value=True)  # those of an image are behind the tokens
    if real is None or real.shape != output.shape[:2]:
        return torch.ones(output.shape[:2], dtype=output.dtype, device=output.device)
    return real.to(output)


def attended(batch: Batch) -> Tensor:
    """Which positions of the input are read, batch x tokens: all but the padding."""
    real = real_tokens(batch)
    if real is not None:
        return real
    inputs: Tensor = next(
        batch[name] for name in (*INPUTS, "labels") if batch.get(name) is not None
    )
    return torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)


class FiniteLoss:
    """Remembers whether any loss was not finite; waits for the device only at the end."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Tensor]] = []

    def add(self, losses: Tensor, number: int | None = None) -> Tensor:
        """Add the losses of a batch; `number` is its number where batches come out of order."""
        self.seen.append((len(self.seen) if number is None else number, losses.detach().isfinite()))
        return losses

    def check(self) -> None:
        for number, finite in self.seen:
            if not bool(finite.all()):
                row = int((~finite).nonzero()[0])
                raise DataError(
                    f"the loss of example {row} of batch {number} is not a finite number.",
                    "check the model's weights for nan (a diverged training, or an overflow of "
                    "float16: try bfloat16 or float32)",
                )
