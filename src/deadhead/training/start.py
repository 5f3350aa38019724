"""The model a training starts from: with a classifier for the labels, in float32, and the precision it came in.

Weights are trained in float32, whatever they were saved in: updates are too small for half precision.
What comes of it is written in the precision of the source again, so that it is not twice as large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from deadhead.errors import DataError
from deadhead.heads import load
from deadhead.tasks import Dataset


@dataclass(frozen=True)
class Start:
    """A model ready to learn a task."""

    model: Any  # in float32
    dtypes: Mapping[str, torch.dtype]  # of its weights in the source, by name

    @property
    def dtype(self) -> torch.dtype:
        """The precision that most weights of the source have."""
        sizes: dict[torch.dtype, int] = {}
        for name, parameter in self.model.named_parameters():
            if name in self.dtypes:
                sizes[self.dtypes[name]] = sizes.get(self.dtypes[name], 0) + parameter.numel()
        return max(sizes, key=sizes.__getitem__)

    @property
    def digest(self) -> str:
        """A hash of the weights, by which a start is known again."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            found.update(name.encode())
            found.update(
                tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
                if tensor.numel()
                else b""
            )
        return found.hexdigest()[:16]

    def lower(self, dtype: torch.dtype | None = None) -> Any:
        """The trained model in the precision of its source, or in another one."""
        for name, parameter in self.model.named_parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype or self.dtypes.get(name, self.dtype))
        return self.model


def start(name: str, data: Dataset, seed: int, auto: Any = None) -> Start:
    """The model of this name with a classifier for these labels: its own, where it has learnt them, else a new one, drawn by the seed."""
    import transformers

    kind = data.task.traits
    auto = getattr(transformers, kind.model) if auto is None else auto

    def loaded(dtype: Any, **labels: Any) -> Any:
        torch.manual_seed(seed)
        return load(name, auto=auto, dtype=dtype, **labels)

    model = loaded("auto")
    dtypes = {key: parameter.dtype for key, parameter in model.named_parameters()}
    known = [*map(str, (getattr(model.config, "id2label", None) or {}).values())]
    labels: dict[str, Any] = {}
    if kind.label_unit != "text" and not set(known) >= set(data.labels):
        named = known != [f"LABEL_{i}" for i in range(len(known))]
        if named and type(model).__name__ in (
            model.config.architectures or ()
        ):  # as many other labels would take their places
            raise DataError(
                f"{name} has learnt other labels ({', '.join(known[:4])}{', ...' if len(known) > 4 else ''}) than those of {data.task.name}.",
                "name the model as it was before it learnt another task",
            )
        labels = {
            "id2label": dict(enumerate(data.labels)),
            "label2id": {label: i for i, label in enumerate(data.labels)},
        }
    if labels or any(dtype != torch.float32 for dtype in dtypes.values()):
        model = loaded(torch.float32, **labels)  # a new classifier is drawn in float32 too
    return Start(model, dtypes)
