"""The record of a training: losses of all updates, scores of all epochs, and the weights."""

from __future__ import annotations

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
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**{**known, "settings": settings, "epochs": epochs})


def read(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except (OSError, SafetensorError) as problem:
        hint = "remove its folder, or train again in another one"
        raise FolderError(f"{path} cannot be read: {problem}.", hint) from problem


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
