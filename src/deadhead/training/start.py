"""The model a training starts from: with a classifier for the labels, in float32.

Weights are trained in float32, whatever their saved precision: updates are too small for half
precision. The trained model is written in the precision of its source, so it is not twice as large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from deadhead.errors import DataError
from deadhead.models import is_unnamed, load_for_task, some
from deadhead.tasks import Dataset


@dataclass(frozen=True)
class Start:
    """A model ready to learn a task."""

    model: Any  # in float32
    dtypes: Mapping[str, torch.dtype]  # precision of the weights in the source, by name

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
        """A hash of the weights, which identifies a start."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            if tensor.numel():
                flat = tensor.detach().cpu().contiguous().flatten()
                digest.update(flat.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    def in_precision(self, dtype: torch.dtype | None = None) -> Any:
        """The trained model in the precision of its source, or in another one."""
        for name, parameter in self.model.named_parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype or self.dtypes.get(name, self.dtype))
        return self.model


def start(name: str, data: Dataset, seed: int, auto: Any = None) -> Start:
    """Load a model with a classifier for the labels of the data.

    A model that knows the labels keeps its classifier; another one gets a new one, drawn with the
    seed.
    """
    model = load_for_task(name, data.task, None, seed=seed, auto=auto, dtype="auto")
    dtypes = {key: parameter.dtype for key, parameter in model.named_parameters()}
    known = [*map(str, (getattr(model.config, "id2label", None) or {}).values())]
    labels = None
    if data.task.traits.label_unit != "text" and not set(known) >= set(data.labels):
        trained = type(model).__name__ in (model.config.architectures or ())
        if trained and not is_unnamed(known):  # else its classifier would silently be reused
            raise DataError(
                f"{name} was trained with other labels ({some(known)}) than {data.task.name} has.",
                "name the model as it was before it was fine-tuned",
            )
        labels = data.labels
    if labels is not None or any(dtype != torch.float32 for dtype in dtypes.values()):
        # a new classifier is drawn in float32 too
        model = load_for_task(name, data.task, labels, seed=seed, auto=auto)
    return Start(model, dtypes)
