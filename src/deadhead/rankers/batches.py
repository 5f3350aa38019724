"""Is the data fit for the model? What is wrong with it is reported before a ranking starts."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import embedding_rows, is_encoder_decoder, position_rows
from deadhead.layout import Batch

from .loss import (
    IGNORED,
    INPUTS,
    attended,
    examples_of,
    forward,
    has_spans,
    on_device,
    right_padded,
    tokens_of,
)

# labels under names that are not read
OF_SPANS = ("start_positions", "end_positions")
STACK = 'give batch["labels"] = torch.stack([start_positions, end_positions], 1)'
OTHER_LABELS = (*OF_SPANS, "next_sentence_label", "label")
MASKS = ("attention_mask", "decoder_attention_mask")
LABEL_FREE = ("entropy", "confidence", "similarity")  # rankers that need no labels


def check_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    labels: bool = True,
    label_free: Sequence[str] = LABEL_FREE,
) -> Sequence[Batch]:
    """The batches as a list, padded on the right; `labels`: whether the method needs them.

    label_free: the methods that need none, for the hint of an error.
    """
    names = ['loss="self" (--loss self)', *label_free]
    others = f"{', '.join(names[:-1])} or {names[-1]}, which need no labels"
    hint = "put the batch in a list: [batch]"
    if isinstance(batches, Mapping):
        raise DataError("expected a list of batches, got one batch.", hint)
    if not isinstance(batches, Iterable):
        raise DataError(f"expected a list of batches, got {type(batches).__name__}.", hint)
    listed = list(batches)  # a generator can be read only once
    if not listed:
        raise DataError("there is no data: the list of batches is empty.", "give at least 1 batch")
    for number, batch in enumerate(listed):
        if not isinstance(batch, Mapping):
            hint = "give dicts ready for model(**batch), with labels"
            raise DataError(f"batch {number} is {type(batch).__name__}, not a dict.", hint)
        if labels:
            _check_labels(number, batch, others)
        check_inputs(f"batch {number}", batch)
    _check_tokens(model, listed)
    if labels:
        if not any(bool((batch["labels"] != IGNORED).any()) for batch in listed):
            message = f"no token has a label: every label is {IGNORED}."
            raise DataError(message, "label at least one token of the data")
        _check_classes(model, listed, others)
        # a loss of torch reads no others
        listed = [
            batch
            if batch["labels"].is_floating_point()
            else {**batch, "labels": batch["labels"].long()}
            for batch in listed
        ]
    return [right_padded(model, batch) for batch in listed]


def check_inputs(which: str, batch: Batch) -> None:
    """Raise an error unless the batch has tensors to read, with the same examples and tokens."""
    inputs = {name: batch[name] for name in INPUTS if batch.get(name) is not None}
    own = {name for name in batch if name != "labels" and not name.endswith("mask")}
    if not inputs and own and "labels" in batch:
        return  # inputs under a name of the model's own; the labels count their examples
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            message = f"{name} of {which} is {type(value).__name__}, not a tensor."
            raise DataError(message, f"write torch.tensor(batch[{name!r}])")
    if not any(map(len, inputs.values())):
        names = ", ".join(batch) or "nothing"
        raise DataError(f"{which} has no inputs; it has: {names}.", "give each batch input_ids")
    name, first = next((name, value) for name, value in inputs.items() if len(value))
    if not first.numel():
        message = f"{which} is empty: its {name} has shape {tuple(first.shape)}."
        raise DataError(message, "leave empty batches out")
    if name == "input_ids" and first.dim() != 2:
        raise DataError(
            f"input_ids of {which} expects examples x tokens, got shape {tuple(first.shape)}.",
            "give a text for each example; models of multiple choice are not supported",
        )
    others = {"labels": 1, "attention_mask": 2 if name == "input_ids" else 1}  # axes to compare
    for other, axes in others.items():
        value = batch.get(other)
        if not isinstance(value, Tensor) or (other == "attention_mask" and value.dim() != 2):
            continue
        if value.shape[:axes] != first.shape[:axes]:
            raise DataError(
                f"{which} has {name} of shape {tuple(first.shape)}, but {other} of shape "
                f"{tuple(value.shape)}.",
                f"give {other} for the same {'examples' if axes == 1 else 'examples and tokens'}",
            )


def _check_tokens(model: nn.Module, batches: Sequence[Batch]) -> None:
    """Raise an error for a token that the model has no embedding or no position for."""
    rows, longest = embedding_rows(model), position_rows(model)
    for number, batch in enumerate(batches):
        _check_targets(model, number, batch)
        ids = batch.get("input_ids")
        # tokens that mark the place of an image or a sound may have no embedding
        if rows is None or any(name in batch for name in INPUTS[1:]):
            continue
        if not isinstance(ids, Tensor) or not ids.numel():
            continue
        least, most = map(int, ids.aminmax())
        if least < 0 or most >= rows:
            raise DataError(
                f"batch {number} has token {least if least < 0 else most} and the model knows "
                f"{rows}.",
                "use the tokenizer that belongs to the model; if this is its pad token, set "
                "tokenizer.pad_token = tokenizer.eos_token",
            )
        if longest is not None and ids.shape[-1] > longest:
            raise DataError(
                f"batch {number} has {ids.shape[-1]} tokens, but the model has {longest} "
                "positions.",
                f"cut the texts: tokenizer(texts, truncation=True, max_length={longest}, ...)",
            )


def _check_targets(model: nn.Module, number: int, batch: Batch) -> None:
    """Raise an error for a text that the decoder of an encoder-decoder has no position for."""
    longest = position_rows(model, decoder=True) if is_encoder_decoder(model) else None
    for name in ("labels", "decoder_input_ids"):
        text = batch.get(name)
        if longest is None or not isinstance(text, Tensor) or text.dim() != 2:
            continue
        if text.shape[1] > longest:
            raise DataError(
                f"batch {number} has {name} of {text.shape[1]} tokens, but the decoder has "
                f"{longest} positions.",
                f"cut them: tokenizer(text_target=texts, truncation=True, max_length={longest}, "
                "...)",
            )


def _check_labels(number: int, batch: Batch, others: str) -> None:
    """others: what to use without labels"""
    labels = batch.get("labels")
    if labels is None:
        other = next((name for name in OTHER_LABELS if name in batch), None)
        hint = "add a tensor 'labels' to every batch, or use " + others
        if other == "label":
            hint = "rename 'label' to 'labels'"
        elif other in OF_SPANS:
            hint = f"{STACK}, or use {others}"
        names = f"{', '.join(batch)}." + (f" ({other!r} is not read.)" if other else "")
        message = f"batch {number} has no labels, and without them there is no loss."
        raise DataError(f"{message} It has: {names}", hint)
    is_score = isinstance(labels, Tensor) and labels.is_floating_point() and labels.dim() == 1
    is_class = isinstance(labels, Tensor) and not labels.is_floating_point()
    if not is_score and not (is_class and labels.dim() in (1, 2)):
        kind = type(labels).__name__
        if isinstance(labels, Tensor):
            kind = f"{labels.dtype} of shape {tuple(labels.shape)}"
        raise DataError(
            f"the labels of batch {number} are {kind}.",
            "give whole numbers, one per example (classification) or one per token (tagging, "
            "language models), or start and end of each answer (question answering), or scores, "
            'one per example (regression); for other tasks write loss="self", or a loss of your '
            "own: loss=function of (outputs, batch)",
        )
    if not labels.numel():
        message = f"batch {number} is empty: its labels have shape {tuple(labels.shape)}."
        raise DataError(message, "leave empty batches out")


@torch.no_grad()
def _check_classes(model: nn.Module, batches: Sequence[Batch], others: str) -> None:
    """Do the labels fit what the model predicts? Run one example to see its shape."""
    example = {
        name: value[:1] if isinstance(value, Tensor) and value.dim() else value
        for name, value in batches[0].items()
    }
    example = on_device(example, model)
    outputs, kind = forward(model, example), type(model).__name__
    logits = getattr(outputs, "logits", None)
    if has_spans(outputs):
        _check_positions(model, batches, others)
        return
    if not isinstance(logits, Tensor):
        raise UnsupportedModel(
            f"{kind} answers without logits: it has no task layer.",
            "load it with a task class, such as AutoModelForSequenceClassification, or use "
            + others,
        )
    labels = example["labels"]
    if logits.shape[:-1] != labels.shape:
        unit = "example" if logits.dim() == 2 else "token"
        raise DataError(
            f"labels of shape {('examples', 'tokens')[: labels.dim()]} do not fit {kind}, whose "
            f"logits for one example have shape {tuple(logits.shape[1:])}; the labels have "
            f"{tuple(labels.shape[1:])}.",
            f"use the model class of the task, or label one {unit} at a time",
        )
    classes = logits.shape[-1]
    if labels.is_floating_point():
        if classes != 1:
            message = f"labels of {labels.dtype} are scores, but {kind} has {classes} outputs."
            raise DataError(message, "give whole numbers, or load a model with num_labels=1")
        return
    for number, batch in enumerate(batches):
        labels = batch["labels"]
        wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= classes))]
        if len(wrong):
            raise DataError(
                f"batch {number} has the label {int(wrong[0])}, but the model knows {classes} "
                f"classes (0 to {classes - 1}).",
                "map the labels to the model's own (model.config.label2id), or use "
                f"{IGNORED} where there is none",
            )


def _check_positions(model: nn.Module, batches: Sequence[Batch], others: str) -> None:
    """Do the labels fit a model of question answering?"""
    kind = type(model).__name__
    if is_encoder_decoder(model):
        message = f"{kind} reads with a decoder where an answer starts, so that no labels fit."
        raise UnsupportedModel(message, f"use {others}")
    for number, batch in enumerate(batches):
        labels, tokens = batch["labels"], attended(batch).to(batch["labels"].device)
        if labels.shape != (len(tokens), 2):
            raise DataError(
                f"{kind} predicts where an answer starts and ends: expected labels of shape "
                f"({len(tokens)}, 2), got {tuple(labels.shape)} in batch {number}.",
                f"{STACK}, or use {others}",
            )
        inside = (labels >= 0) & (labels < tokens.shape[1])
        read = tokens.gather(1, labels.where(inside, 0)) & inside
        if bool((~read & (labels != IGNORED)).any()):
            wrong = int(labels[~read & (labels != IGNORED)][0])
            message = f"batch {number} has an answer at position {wrong}, which is no token."
            raise DataError(message, f"count from 0, or use {IGNORED} where there is no answer")


def check_pairs(
    clean: Batch | Iterable[Batch], corrupt: Batch | Iterable[Batch]
) -> list[tuple[Batch, Batch]]:
    """The batches in pairs: as many clean as corrupt ones, with the same shapes and padding.

    Where one of a pair has no labels, it gets those of the other.
    """
    sides = [listed("clean", clean), listed("corrupt", corrupt)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"got {len(sides[0])} clean batches and {len(sides[1])} corrupt ones.",
            "give one corrupt batch for each clean one",
        )
    pairs: list[tuple[Batch, Batch]] = []
    for number, (first, second) in enumerate(zip(*sides, strict=True)):
        if "labels" in first:
            second = {"labels": first["labels"], **second}
        elif "labels" in second:
            first = {"labels": second["labels"], **first}
        _check_pair(number, first, second)
        pairs.append((first, second))
    return pairs


def listed(side: str, batches: Batch | Iterable[Batch]) -> Sequence[Batch]:
    """The batches of a side as a list, which may be of one."""
    batch_list: list[Any] = []
    if isinstance(batches, Iterable):
        batch_list = [batches] if isinstance(batches, Mapping) else list(batches)
    if not batch_list or not all(isinstance(batch, Mapping) for batch in batch_list):
        raise DataError(
            f"`{side}` expects a batch or a list of batches, got {_kind(batches)}.",
            "give dicts ready for model(**batch)",
        )
    for number, batch in enumerate(batch_list):
        check_inputs(f"{side} batch {number}", batch)
    return batch_list


def _kind(value: Any) -> str:
    return "an empty list" if value in ([], ()) else type(value).__name__


def _check_pair(number: int, clean: Batch, corrupt: Batch) -> None:
    for name in dict.fromkeys((*clean, *corrupt)):
        first, second = clean.get(name), corrupt.get(name)
        if name in clean and name in corrupt and not isinstance(first, Tensor):
            continue
        if not isinstance(first, Tensor) or not isinstance(second, Tensor):
            side = "clean" if name not in clean else "corrupt"
            raise DataError(
                f"{side} batch {number} has no tensor {name!r}, and the other one has.",
                "give both the same entries",
            )
        if first.shape != second.shape:
            raise DataError(
                f"{name} of clean batch {number} has shape {tuple(first.shape)}, of corrupt "
                f"{tuple(second.shape)}.",
                "a head is patched position by position: give pairs of the same length",
            )
        if name in MASKS and not torch.equal(first.bool(), second.bool()):
            rows = (first.bool() != second.bool()).reshape(len(first), -1).any(1)
            raise DataError(
                f"{name} of example {int(rows.nonzero()[0])} of batch {number} differs between "
                "clean and corrupt.",
                "padding would be patched into tokens: give pairs of the same length",
            )


def describe(batches: Sequence[Batch]) -> dict[str, Any]:
    """The size of the data, and a hash of it."""
    digest = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            if isinstance(batch[name], Tensor):
                value = batch[name].detach().cpu().contiguous()
                digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
                if value.numel():
                    digest.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return {
        "examples": sum(map(examples_of, batches)),
        "tokens": tokens_of(batches),
        "batches": len(batches),
        "fingerprint": digest.hexdigest()[:16],
    }
