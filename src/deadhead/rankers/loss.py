"""The loss of each example by itself, for every kind of model alike.

An example's loss is the mean cross-entropy over its labelled tokens (for a sentence classifier, of
its one label). A model's own `loss` is the mean over all tokens of the batch, in which long sentences
and lucky batch-mates weigh in; here an example has the same loss in every company, padded or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.errors import DataError
from deadhead.forward import IGNORED as IGNORED
from deadhead.forward import forward as answer
from deadhead.forward import is_encoder_decoder, predicts_next

# What a batch may hold besides inputs and labels, where it is not measured by its labels: see label_free.py.
LOSS, TARGET, SEEDS = "deadhead.loss", "deadhead.target", "deadhead.seeds"
INPUTS = (
    "input_ids",
    "inputs_embeds",
    "input_features",
    "pixel_values",
)  # what a model reads, of which one is in a batch


def task_of(model: nn.Module, batch: Mapping[str, Tensor]) -> str:
    """What the model does with this batch: `classify`, `tag`, `seq2seq` or `causal`.

    A masked language model counts as a tagger: its labels sit where its predictions are.
    """
    labels, target = batch.get("labels"), batch.get(TARGET)
    if labels is None or target is not None:
        return "classify" if target is not None and target.dim() == 2 else "tag"
    if labels.dim() == 1:
        return "classify"
    if is_encoder_decoder(model):
        return "seq2seq"
    return "causal" if predicts_next(model, labels) else "tag"


def right_padded(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The batch with its padding on the right, so that no number depends on the side a tokenizer pads.

    With padding on the left, the first token of a decoder would be predicted from a padding position, models that count
    positions would count the padding, and queries that may read nothing make some kernels answer nan.
    """
    both = is_encoder_decoder(model)
    ours = [
        name
        for name in batch
        if not name.startswith("decoder_") and not (both and name == "labels")
    ]
    made = {**batch, **_rolled({name: batch[name] for name in ours}, "attention_mask")}
    theirs = {name: batch[name] for name in batch if name not in ours}
    return {**made, **_rolled(theirs, "decoder_attention_mask")}


def _rolled(batch: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Each row of the tensors of batch x tokens without the padding before it, which comes after it instead."""
    mask = batch.get(name)
    if mask is None or mask.dim() != 2:
        return {}
    before = (mask != 0).long().cumsum(1).eq(0).sum(1, keepdim=True) % mask.shape[1]
    if not bool(before.any()):
        return {}
    index = (torch.arange(mask.shape[1], device=mask.device) + before) % mask.shape[1]
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    aligned = {
        n: t for n, t in batch.items() if isinstance(t, Tensor) and t.shape[:2] == mask.shape
    }
    return {n: t[rows.to(t.device), index.to(t.device)] for n, t in aligned.items()}


def example_losses(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """The loss of each example of the batch, on the model's device; 0 for one without a label."""
    batch = on_device(right_padded(model, batch), model)
    return losses_said(model, batch, answer(model, batch))


def losses_said(model: nn.Module, batch: Mapping[str, Any], said: Any) -> Tensor:
    """The loss of each example, given what the model said: the batch's own loss, or the cross-entropy of its labels."""
    if LOSS in batch:
        found: Tensor = batch[LOSS](said, batch)
        return found
    return losses_of(said.logits, batch["labels"], shifted=task_of(model, batch) == "causal")


def examples_of(batch: Mapping[str, Any]) -> int:
    """How many examples a batch has."""
    labels = batch.get("labels")
    return len(attended(batch) if labels is None else labels)


def output_of(said: Any) -> Tensor | None:
    """What a model is there for: its logits, or the hidden states of its last layer."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(said, name, None), Tensor):
            return getattr(said, name)
    return None


def positions_of(said: Any, batch: Mapping[str, Any]) -> Tensor | None:
    """Which positions of the output are no padding; None where it has but one of each example."""
    output = output_of(said)
    if output is None or output.dim() < 3:
        return None
    real: Tensor | None = attended(batch)
    if (
        getattr(said, "encoder_last_hidden_state", None) is not None
    ):  # what comes out are positions of the decoder
        labels = batch.get("labels")
        real = batch.get("decoder_attention_mask", None if labels is None else labels != IGNORED)
    if real is None or real.shape != output.shape[:2]:
        return torch.ones(output.shape[:2], dtype=output.dtype, device=output.device)
    return real.to(output)


def losses_of(logits: Tensor, labels: Tensor, *, shifted: bool = False) -> Tensor:
    """The loss of each example, given what the model said. `shifted`: a position predicts the next one's label."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if labels.dim() == 1:
        return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
    each = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none"
    ).view(labels.shape)
    return each.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


def on_device(batch: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The batch where the model is."""
    device = next(model.parameters()).device
    moved = {
        name: _moved(value, device) if isinstance(value, Tensor) else value
        for name, value in batch.items()
    }
    mask = batch.get("attention_mask")
    if device.type == "cuda" and mask is not None and not mask.is_cuda and bool(mask.all()):
        del moved[
            "attention_mask"
        ]  # it hides nothing, and transformers would stop the device to find that out
    return moved


def _moved(value: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and not value.is_cuda:
        value = (
            value.pin_memory()
        )  # a copy from other memory would wait until the device has nothing left to do
    return value.to(device, non_blocking=True)


def attended(batch: Mapping[str, Tensor]) -> Tensor:
    """Which positions of the input are read, batch x tokens: all but the padding."""
    mask = batch.get("attention_mask")
    if mask is not None and mask.dim() == 2:
        return mask.bool()
    inputs = next(batch[name] for name in (*INPUTS, "labels") if batch.get(name) is not None)
    return torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)


class FiniteLoss:
    """Remembers whether any loss was not finite, without asking the device until the end."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Tensor]] = []

    def add(self, losses: Tensor, number: int | None = None) -> Tensor:
        """Look at the losses of a batch; `number` is its own where batches do not come one after the other."""
        self.seen.append((len(self.seen) if number is None else number, losses.detach().isfinite()))
        return losses

    def check(self) -> None:
        for number, finite in self.seen:
            if not bool(finite.all()):
                row = int((~finite).nonzero()[0])
                raise DataError(
                    f"the loss of example {row} of batch {number} is not a finite number.",
                    "look for nan in the model's weights (a diverged training, or float16 that overflowed: try bfloat16 or float32)",
                )
