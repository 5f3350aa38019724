"""What is looked at before a training starts: a mistake should cost a second, not a night."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from deadhead.errors import DataError
from deadhead.tasks.encoding.encode import IGNORED, Encoded

from .settings import Settings

OFFSETS = {
    "roberta": 2,
    "xlm-roberta": 2,
    "camembert": 2,
}  # positions that these families never use


def check(
    model: Any, train: Encoded, settings: Settings, dev: Mapping[str, Encoded] | None = None
) -> list[str]:
    """Raise what would go wrong; return what is unusual but has a right way of going on."""
    if not len(train):
        raise DataError(
            "there is no training data.",
            "load a split that has rows: load_data(task, lang, 'train')",
        )
    check_fit(model, train, "training")
    if not any(p.requires_grad for p in model.parameters()):
        raise DataError(
            "every weight of the model is frozen, so there is nothing to train.",
            "set requires_grad of some parameters",
        )
    for one in (dev or {}).values():
        if not len(one):
            raise DataError(
                f"there is no dev data of {one.data.lang}.",
                "leave dev out, or load a split that has rows",
            )
        check_fit(model, one, "dev")
        if one.data.task.traits is not train.data.task.traits or one.labels != train.labels:
            raise DataError(
                "the dev data has other labels, or the same in another order, than the training data.",
                "encode it with those of the training data: encode(dev, tokenizer, labels=train.labels)",
            )
    if not (np.asarray(train.arrays["labels"]) != IGNORED).any():
        raise DataError(
            "no label of the training data is known to the model.", "encode it with its own labels"
        )
    return [
        *_small(train, settings),
        *(note for one in (dev or {}).values() for note in unseen(train, one)),
    ]


def _small(train: Encoded, settings: Settings) -> list[str]:
    notes = []
    if settings.tokens is None and settings.batch > len(train):
        notes.append(
            f"batch {settings.batch} is larger than the data: every epoch is one update with all {len(train)} windows"
        )
    longest = int(np.max(train.arrays["lengths"]))
    if settings.tokens is not None and settings.tokens < longest:
        notes.append(
            f"a batch of {settings.tokens} tokens is shorter than the longest window ({longest}), which stands alone"
        )
    return notes


def check_fit(model: Any, encoded: Encoded, name: str) -> None:
    """Raise if this model cannot read this data."""
    if not isinstance(encoded, Encoded):
        raise DataError(
            f"the {name} data is a {type(encoded).__name__}, not sub-words.",
            "encode it first: encode(data, tokenizer)",
        )
    config: Any = getattr(model, "config", None)
    kind = encoded.data.task.traits
    both = bool(getattr(config, "is_encoder_decoder", False))
    if (kind.label_unit == "text") is not both:
        raise DataError(
            f"the {name} data is of the kind {encoded.data.task.kind!r}, which {type(model).__name__} does not do.",
            f"load it as {kind.model}"
            if kind.label_unit == "text"
            else "take a model that is an encoder, or a decoder, alone",
        )
    if kind.label_unit != "text" and getattr(config, "num_labels", len(encoded.labels)) != len(
        encoded.labels
    ):
        raise DataError(
            f"the model was made for {config.num_labels} labels and the {name} data has {len(encoded.labels)}.",
            f"load it as {kind.model}.from_pretrained(name, num_labels={len(encoded.labels)})",
        )
    size, largest = getattr(config, "vocab_size", None), int(np.max(encoded.arrays["ids"]))
    if size is not None and largest >= size:
        raise DataError(
            f"the {name} data has sub-word {largest} and the model knows {size}.",
            "encode it with the tokenizer that belongs to the model",
        )
    room, longest = (
        getattr(config, "max_position_embeddings", None),
        int(np.max(encoded.arrays["lengths"])),
    )
    room = room - OFFSETS.get(config.model_type, 0) if isinstance(room, int) else None
    if room is not None and longest > room:
        raise DataError(
            f"the {name} data has windows of {longest} positions and the model has {room}.",
            f"encode it with max_length={room}",
        )


def unseen(train: Encoded, other: Encoded) -> list[str]:
    """A line about labels that another set has and training never sees: no model can get them right."""
    if train.data.task.traits.label_unit == "text":
        return []
    known = set(train.data.used_labels) & set(train.labels)
    strange = Counter(
        label for row in other.data.rows for label in row.labels if label not in known
    )
    if not strange:
        return []
    told = ", ".join(f"{label} ({n})" for label, n in strange.most_common(5)) + (
        ", ..." if len(strange) > 5 else ""
    )
    return [
        f"{other.data.lang} {other.data.split} has labels that training never sees, which count as wrong: {told}"
    ]
