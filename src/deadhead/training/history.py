"""The record of a training: losses of all updates, scores of all epochs, and the weights.

`Watch` detects losses that diverge.
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deadhead.errors import FolderError, unknown_name
from deadhead.tasks.metrics import sign

from .settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

SAVED = ("last", "best")  # epochs whose weights a model can be saved with
KEPT = ("first", *SAVED)
WINDOW = 100  # updates over which a loss is averaged before it counts as diverging


@dataclass(kw_only=True)
class Epoch:
    """One pass over the data. Only its times differ when it is run again."""

    number: int  # from 1
    loss: float  # mean over the updates
    updates: int
    examples: int
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # training time, without scoring
    scoring: float = 0.0  # seconds

    @property
    def speed(self) -> float:
        """Examples per second of training."""
        return self.examples / self.seconds if self.seconds else 0.0


@dataclass(kw_only=True)
class History:
    """The record of one training."""

    settings: Settings
    state: str = "running"  # then `done` or `failed`
    reason: str = ""  # why it failed, or stopped early
    epochs: list[Epoch] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # one per update
    metric: str = ""  # the score that decides which epoch is best
    best: int | None = None  # its number
    notes: list[str] = field(default_factory=list)  # what was unusual, and how it was handled
    kernels: str = ""  # that computed it, with the number of threads; for a GPU its name
    # name in KEPT -> tensors or file
    weights: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the best epoch."""
        return dict(self.epochs[self.best - 1].scores) if self.best else {}

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def take(self, epoch: Epoch) -> bool:
        """Add an epoch; returns whether it is the best so far (without scores, the last one is)."""
        self.epochs.append(epoch)
        if epoch.scores and not self.metric:
            self.metric = next(iter(epoch.scores))
        value, best = epoch.scores.get(self.metric), self.scores.get(self.metric)
        if (
            value is None or best is None or best != best or sign(self.metric) * (value - best) > 0
        ):  # a score may be nan
            self.best = epoch.number
        return self.best == epoch.number

    def restore(self, model: Any, which: str = "best") -> Any:
        """Put the weights after the `first`, `best` or `last` epoch into the model; returns it."""
        if which not in KEPT:
            raise unknown_name("weights", which, KEPT)
        weights = self.weights.get(which)
        if weights is None:
            first = which == "first"
            hint = "train with keep_first=True, in a new folder" if first else "train again"
            raise FolderError(f"the weights after the {which} epoch were not kept.", hint)
        put(model, read(weights) if isinstance(weights, str | Path) else weights)
        return model

    def to_dict(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "weights"}
        epochs = [asdict(epoch) for epoch in self.epochs]
        return fields | {"settings": self.settings.to_dict(), "epochs": epochs}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> History:
        settings = Settings.from_dict(values["settings"])
        epochs = [Epoch(**epoch) for epoch in values["epochs"]]
        return cls(**{**values, "settings": settings, "epochs": epochs})


class Watch:
    """The losses of a training so far. `classes` gives the loss of random guesses."""

    def __init__(self, classes: int, window: int):
        self.guess = math.log(max(2, classes))
        self.window = window
        self.every: list[float] = []
        self.recent: deque[float] = deque(maxlen=window)
        self.limit = math.inf

    def add(self, loss: float) -> str | None:
        """Add the loss of an update; returns a reason to stop, if there is one."""
        self.every.append(loss)
        self.recent.append(loss)
        if not math.isfinite(loss):
            return f"the loss or its gradient is {loss}"
        if len(self.every) == 1:  # before any update
            self.limit = max(3 * loss, self.guess)
        mean = sum(self.recent) / len(self.recent)
        if len(self.recent) < self.window or mean <= self.limit:
            return None
        return (
            f"the loss diverges: {mean:.3g} on average, over three times that of the start "
            f"and worse than guessing ({self.guess:.3g}),"
        )


def read(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except (OSError, SafetensorError) as problem:
        hint = "train again in another folder"
        raise FolderError(f"{path} cannot be read: {problem}.", hint) from problem


def is_whole(path: str | Path) -> bool:
    """Whether a safetensors file is as long as its header says. Cheap: reads no tensors."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = file.seek(0, os.SEEK_END)
            if not 0 < length <= size - 8:
                return False
            file.seek(8)
            header = json.loads(file.read(length))
        entries = [entry for name, entry in header.items() if name != "__metadata__"]
        end = max((entry["data_offsets"][1] for entry in entries), default=0)
        return bool(size == 8 + length + end)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, IndexError):
        return False


def write(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write these tensors, on whatever device, to a safetensors file."""
    from safetensors.torch import save_file

    save_file({n: tensor.detach().cpu().contiguous() for n, tensor in tensors.items()}, str(path))


def put(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model of the same shapes."""
    import torch

    from .update import stored

    with torch.no_grad():
        for name, tensor in stored(model):
            if name not in weights or weights[name].shape != tensor.shape:
                hint = "give the model that was trained, with the same heads removed"
                raise FolderError(f"the weights kept do not fit the model at {name}.", hint)
            tensor.copy_(weights[name])
