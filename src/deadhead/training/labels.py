"""The labels of a model beside those of the data: its own order, or an error where it learnt another task."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks import Dataset

NO_CLASS = "O"  # of no use to tell tasks apart: every tagger of spans has it


def made_for(loaded: Any, data: Dataset) -> bool:
    """Whether this is a model for tasks of this kind."""
    import transformers

    auto = getattr(transformers, data.task.traits.model)
    return isinstance(loaded, auto._model_mapping.get(type(loaded.config), ()))


def model_labels(loaded: Any, data: Dataset) -> tuple[str, ...] | None:
    """The labels in the model's own order; an error where it was made for another task."""
    if not made_for(loaded, data):
        raise DataError(
            f"{type(loaded).__name__} is not made for {data.task.name}, which is a task for {data.task.traits.model}.",
            f"fine-tune it first: deadhead finetune MODEL --task {data.task.name} --lang en --out DIR",
        )
    if data.task.traits.label_unit == "text":
        return None
    names = tuple(str(loaded.config.id2label[i]) for i in range(loaded.config.num_labels))
    if _knows(names, data):
        return names
    if len(names) == len(data.labels) and all(name == f"LABEL_{i}" for i, name in enumerate(names)):
        return tuple(data.labels)  # the model was saved without names for its classes
    raise DataError(
        f"the model's classes ({', '.join(names[:4])}{', ...' if len(names) > 4 else ''}) are not the labels of {data.task.name} "
        f"({', '.join(data.labels[:4])}{', ...' if len(data.labels) > 4 else ''}).",
        "name the task the model was fine-tuned on, or set id2label in its config.json",
    )


def _knows(names: tuple[str, ...], data: Dataset) -> bool:
    """Whether these are classes for this data: of the labels in it, `O` aside, at least half are among them."""
    if not set(names) & (set(data.labels) - {NO_CLASS} or {NO_CLASS}):
        return False
    met = Counter(label for row in data.rows for label in row.labels if label != NO_CLASS)
    strange = {label: n for label, n in met.items() if label not in names}
    if 2 * sum(strange.values()) > met.total():
        raise DataError(
            f"the model does not know {sum(strange.values()) / met.total():.0%} of the labels of this {data.task.name} data: "
            f"{', '.join(sorted(strange)[:4])}{', ...' if len(strange) > 4 else ''}.",
            "name the task the model was fine-tuned on, or set id2label in its config.json",
        )
    return True
