"""The training loss: cross-entropy summed over the labels of a batch, so that parts add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from deadhead.forward import IGNORED, forward, predicts_next

# Families whose encoder takes a mask of four axes as it is. With the usual mask of two axes
# transformers asks the device at every step whether it hides anything, and waits for the answer.
READY_MASKS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")


def loss_sum(model: Any, batch: Mapping[str, Tensor], smoothing: float = 0.0) -> Tensor:
    """The summed loss of all labels in the batch; divide by their number for the mean."""
    labels = batch["labels"]
    logits = forward(model, ready(model, batch)).logits
    if predicts_next(model, labels):
        logits, labels = logits[:, :-1], labels[:, 1:]
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    options: Any = {"ignore_index": IGNORED, "label_smoothing": smoothing}
    return F.cross_entropy(logits, labels, reduction="sum", **options)


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
