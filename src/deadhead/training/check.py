"""Checks before a training starts: a mistake should cost a second, not a night."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from deadhead.errors import DataError
from deadhead.forward import IGNORED, embedding_rows, is_causal
from deadhead.tasks import Encoded

from .models import NOT_CAUSAL, check_positions
from .settings import Settings


def check(model: Any, train: Encoded, settings: Settings, dev: Mapping[str, Encoded]) -> list[str]:
    """Raise an error if the training cannot work; return notes about what is unusual."""
    if not len(train):
        hint = "load a split that has rows: load_data(task, lang, 'train')"
        raise DataError("there is no training data.", hint)
    check_fit(model, train, "training")
    if not any(p.requires_grad for p in model.parameters()):
        message = "every weight of the model is frozen, so there is nothing to train."
        raise DataError(message, "set requires_grad of some parameters")
    for encoded in dev.values():
        if not len(encoded):
            message = f"there is no dev data of {encoded.data.lang}."
            raise DataError(message, "leave dev out, or load a split that has rows")
        check_fit(model, encoded, "dev")
        same_kind = encoded.data.task.traits is train.data.task.traits
        if not same_kind or encoded.labels != train.labels:
            message = "the dev data has other labels than the training data, or in another order."
            hint = "encode it with those: encode(dev, tokenizer, labels=train.labels)"
            raise DataError(message, hint)
    if not (np.asarray(train.arrays["labels"]) != IGNORED).any():
        message = "the model knows no label of the training data."
        raise DataError(message, "encode it with its own labels")
    if settings.smoothing and train.data.task.traits.label_unit == "span":
        message = "the start and the end of an answer are no labels to smooth."
        raise DataError(message, "leave the label smoothing out")
    longest = int(np.max(train.arrays["lengths"]))
    if settings.tokens is None and settings.batch > len(train.learned):
        update = f"every epoch is one update with all {len(train.learned)} windows"
        return [f"batch {settings.batch} is larger than the data: {update}"]
    if settings.tokens is not None and settings.tokens < longest:
        short = f"a batch of {settings.tokens} tokens is shorter than the longest window"
        return [f"{short} ({longest}), which gets a batch of its own"]
    return []


def check_fit(model: Any, encoded: Encoded, name: str) -> None:
    """Raise an error if the model cannot read this data."""
    if not isinstance(encoded, Encoded):
        message = f"the {name} data is a {type(encoded).__name__}, not sub-words."
        raise DataError(message, "encode it first: encode(data, tokenizer)")
    config: Any = getattr(model, "config", None)
    kind = encoded.data.task.traits
    translates = kind.label_unit == "text"
    if translates is not bool(getattr(config, "is_encoder_decoder", False)):
        message = f"the {name} data is of the kind {encoded.data.task.kind!r}, "
        hint = f"load it as {kind.model}" if translates else "use an encoder or a decoder model"
        raise DataError(f"{message}which {type(model).__name__} does not do.", hint)
    if kind.needs_decoder and not is_causal(model):
        message = f"{type(model).__name__} does not predict the next token of the {name} data."
        raise DataError(message, NOT_CAUSAL)
    labels = len(encoded.labels)
    if kind.has_labels and getattr(config, "num_labels", labels) != labels:
        message = f"the model has {config.num_labels} labels and the {name} data has {labels}."
        hint = f"load it as {kind.model}.from_pretrained(name, num_labels={labels})"
        raise DataError(message, hint)
    _check_tokens(model, encoded, name)
    check_positions(model, encoded.arrays["lengths"], name)


def _check_tokens(model: Any, encoded: Encoded, name: str) -> None:
    """Raise an error for a token without an embedding, in the data or as its padding."""
    rows, largest = embedding_rows(model), int(np.max(encoded.arrays["ids"]))
    if rows is None:
        return
    if largest >= rows:
        message = f"the {name} data has sub-word {largest} and the model knows {rows}."
        raise DataError(message, "encode it with the tokenizer that belongs to the model")
    is_padded = len(np.unique(encoded.arrays["lengths"])) > 1
    if is_padded and encoded.pad >= rows:
        message = f"the tokenizer pads with token {encoded.pad} and the model knows {rows}."
        hint = "choose a token that it knows: tokenizer.pad_token = tokenizer.eos_token, then save"
        raise DataError(message, f"{hint} the tokenizer into the model's folder")
