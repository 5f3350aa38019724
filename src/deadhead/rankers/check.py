"""Before and after a ranking: is the data fit for the model, and is the model left as it was found?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.device import computing
from deadhead.errors import DataError, DeadheadError, UnsupportedModel
from deadhead.layout import Head, HeadLayout

from .loss import IGNORED, INPUTS, answer, attended, examples_of, on_device, right_padded

ANSWERS = (
    "start_positions",
    "end_positions",
    "next_sentence_label",
    "label",
)  # labels under names that are not read
LABEL_FREE = 'loss="self" (--loss self), entropy or confidence, which need no labels'


@contextmanager
def settled(model: nn.Module, seed: int) -> Iterator[None]:
    """The model in evaluation mode with frozen weights and a seeded generator; all as it was afterwards."""
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise UnsupportedModel(
            "the weights were made under torch.inference_mode, where nothing can be differentiated.",
            "load the model outside of torch.inference_mode()",
        )
    modes = [(module, module.training) for module in model.modules()]
    asked = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with (
        torch.random.fork_rng(),
        torch.inference_mode(False),
        torch.enable_grad(),
        computing(model),
    ):
        torch.manual_seed(seed)
        try:
            model.eval()
            for parameter, _ in asked:
                parameter.requires_grad_(False)
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, flag in asked:
                parameter.requires_grad_(flag)


def check_batches(
    model: nn.Module, batches: Iterable[Mapping[str, Tensor]], *, labels: bool = True
) -> Sequence[Mapping[str, Tensor]]:
    """The batches as a sequence, or what is wrong with them. Not every method and loss needs labels."""
    if isinstance(batches, Mapping):
        raise DataError(
            "one batch was given where a list of batches belongs.", "write rank(model, [batch])"
        )
    if not isinstance(batches, Iterable):
        raise DataError(
            f"{type(batches).__name__} was given where a list of batches belongs.",
            "write rank(model, [batch])",
        )
    found = list(batches)  # made once, however often they are gone over
    if not found:
        raise DataError(
            "there is no data: the list of batches is empty.", "give at least one batch"
        )
    for number, batch in enumerate(found):
        if not isinstance(batch, Mapping):
            raise DataError(
                f"batch {number} is {type(batch).__name__}, not a dict.",
                "give dicts ready for model(**batch), with labels",
            )
        if labels:
            _check_labels(number, batch)
        elif not any(isinstance(batch.get(name), Tensor) and len(batch[name]) for name in INPUTS):
            raise DataError(
                f"batch {number} has no inputs; it has: {', '.join(batch) or 'nothing'}.",
                "give each batch input_ids",
            )
    if not labels:
        return [right_padded(model, batch) for batch in found]
    if not any(bool((batch["labels"] != IGNORED).any()) for batch in found):
        raise DataError(
            f"no token carries a label: every label is {IGNORED}.",
            "label at least one token of the data",
        )
    _check_classes(model, found)
    return [right_padded(model, batch) for batch in found]


def _check_labels(number: int, batch: Mapping[str, Tensor]) -> None:
    labels = batch.get("labels")
    if labels is None:
        other = next((name for name in ANSWERS if name in batch), None)
        hint = (
            f"rename {other!r} to 'labels'"
            if other == "label"
            else "add a tensor 'labels' to every batch, or rank by " + LABEL_FREE
        )
        met = f" It has: {', '.join(batch)}." + (f" ({other!r} is not read.)" if other else "")
        raise DataError(
            f"batch {number} has no labels, and without them there is no loss to ask about.{met}",
            hint,
        )
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dim() not in (1, 2):
        kind = (
            f"{labels.dtype} of shape {tuple(labels.shape)}"
            if isinstance(labels, Tensor)
            else type(labels).__name__
        )
        raise DataError(
            f"the labels of batch {number} are {kind}.",
            "give whole numbers, one per example (classification) or one per token (tagging, language models)",
        )
    if not labels.numel():
        raise DataError(
            f"batch {number} is empty: its labels have shape {tuple(labels.shape)}.",
            "leave empty batches out",
        )


@torch.no_grad()
def _check_classes(model: nn.Module, batches: Sequence[Mapping[str, Tensor]]) -> None:
    """Do the labels fit what the model predicts? One example is run to see its shape."""
    first = on_device(
        {
            name: value[:1] if isinstance(value, Tensor) and value.dim() else value
            for name, value in batches[0].items()
        },
        model,
    )
    logits = getattr(answer(model, first), "logits", None)
    if not isinstance(logits, Tensor):
        raise UnsupportedModel(
            f"{type(model).__name__} answers without logits: it has no task layer.",
            f"load it with a task class, such as AutoModelForSequenceClassification, or rank by {LABEL_FREE}",
        )
    labels = first["labels"]
    if logits.shape[:-1] != labels.shape:
        raise DataError(
            f"labels of shape {('examples', 'tokens')[: labels.dim()]} do not fit {type(model).__name__}, whose logits for one example "
            f"have shape {tuple(logits.shape[1:])}; the labels have {tuple(labels.shape[1:])}.",
            "use the model class of the task, or label one "
            + ("example" if logits.dim() == 2 else "token")
            + " at a time",
        )
    classes = logits.shape[-1]
    for number, batch in enumerate(batches):
        wrong = batch["labels"][
            (batch["labels"] != IGNORED) & ((batch["labels"] < 0) | (batch["labels"] >= classes))
        ]
        if len(wrong):
            raise DataError(
                f"batch {number} has the label {int(wrong[0])}, but the model knows {classes} classes (0 to {classes - 1}).",
                f"map the labels to the model's own (model.config.label2id), or use {IGNORED} for what has none",
            )


def check_scores(method: str, layout: HeadLayout, scores: Mapping[Head, float]) -> None:
    """Every head of the layout has a finite score, and no other head has one."""
    wrong = next(
        (head for head in layout if not torch.tensor(scores.get(head, float("nan"))).isfinite()),
        None,
    )
    if wrong is not None:
        met = "no score" if wrong not in scores else f"the score {scores[wrong]}"
        raise DeadheadError(
            f"{method} gave {met} to head {wrong}.",
            "look for nan or infinity in the model's weights and outputs",
        )
    extra = [head for head in scores if head not in layout]
    if extra:
        raise DeadheadError(f"{method} scored a head that is not asked about: {extra[0]}.")


def describe(batches: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
    """How much data it was, and a hash of it."""
    digest = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            value = batch[name]
            if isinstance(value, Tensor):
                plain = value.detach().cpu().contiguous()
                digest.update(f"{name}{tuple(plain.shape)}{plain.dtype}".encode())
                digest.update(
                    plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b""
                )
    return {
        "examples": sum(map(examples_of, batches)),
        "tokens": sum(int(attended(batch).sum()) for batch in batches),
        "batches": len(batches),
        "fingerprint": digest.hexdigest()[:16],
    }
