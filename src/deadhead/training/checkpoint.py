"""A training on disk: if it is killed, at most the current epoch is lost.

    FOLDER/history.json               the record so far
    FOLDER/{first,best,last}.safetensors
    FOLDER/epoch-N/                   all that the next epoch depends on; only the latest is kept

The state of a large model takes seconds to write, and its epochs may be short. Then it is written
less often, so that writing takes at most a tenth of the time, and a few epochs may be lost.

Files are written beside, synced and renamed, so each is whole or absent. Nothing is pickled.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deadhead import files
from deadhead.errors import FolderError
from deadhead.files.writing import writing

from .history import KEPT, History, read, write

Weights = Mapping[str, Tensor]
QUICK = 2.0  # seconds; a state that takes no longer to write is written after each epoch
SHARE = 0.1  # the largest share of the time that writing other states may take


def identity(*parts: Any) -> str:
    """A hash of everything that a training depends on."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class Folder:
    """The folder of one training."""

    def __init__(self, path: str | Path, identity: str):
        self.path = Path(path)
        self.identity = identity
        with writing(path):
            self.path.mkdir(parents=True, exist_ok=True)
        files.remove_drafts(self.path)  # of a run that was killed
        self._next_save = 0.0  # on the clock

    def history(self) -> History | None:
        """The record, if the training was begun and did not fail."""
        file = self.path / "history.json"
        if not file.exists():
            return None
        history, identity = _parsed(file)
        self._check(identity)
        if history.state == "failed":  # calling again means trying again
            return None
        history.weights = self.weights()
        return history

    def _check(self, identity: str | None) -> None:
        if identity != self.identity:
            differ = "its settings, data, heads or shapes differ"
            hint = "name another folder, or remove this one"
            raise FolderError(f"{self.path} has another training: {differ}.", hint)

    def weights(self) -> dict[str, Any]:
        files = {which: self.path / f"{which}.safetensors" for which in KEPT}
        return {which: file for which, file in files.items() if file.exists()}

    def keep(self, which: str, weights: Weights) -> Path:
        target = self.path / f"{which}.safetensors"
        with writing(target):
            files.put(target, lambda draft: write(draft, weights))
        return target

    def write(self, history: History) -> None:
        with writing(self.path / "history.json"):
            files.write(self.path / "history.json", self._text(history))

    def _text(self, history: History) -> str:
        return json.dumps({"identity": self.identity, **history.to_dict()}, indent=1)

    def save(self, epoch: int, history: History, weights: Weights, moments: Weights) -> None:
        """Keep all that the next epoch depends on, unless the last state was kept just now."""
        begin = time.monotonic()
        if begin < self._next_save:
            self.write(history)
            return

        def fill(draft: Path) -> None:
            write(draft / "weights.safetensors", weights)
            random = random_state(next(iter(weights.values())).device)
            write(draft / "moments.safetensors", {**moments, **random})
            (draft / "history.json").write_text(self._text(history), encoding="utf-8")

        with writing(self.path / f"epoch-{epoch}"):
            files.put_folder(self.path / f"epoch-{epoch}", fill)
        self.write(history)
        self.clear(epoch)
        end = time.monotonic()
        if end - begin > QUICK:
            self._next_save = end + (end - begin) * (1 / SHARE - 1)

    def load(self) -> tuple[History, dict[str, Tensor], dict[str, Tensor]] | None:
        """The state after the latest epoch, if any."""
        epochs = self._epochs()
        if not epochs:
            return None
        folder = epochs[max(epochs)]
        history, identity = _parsed(folder / "history.json")
        self._check(identity or self.identity)
        history.weights = self.weights()
        return history, read(folder / "weights.safetensors"), read(folder / "moments.safetensors")

    def clear(self, but: int | None = None) -> None:
        """Remove the states of all other epochs; without a number, everything but the results."""
        for number, folder in self._epochs().items():
            if number != but:
                files.remove_folder(folder)

    def _epochs(self) -> dict[int, Path]:
        """The folders with states, by epoch."""
        return {int(f.name[6:]): f for f in self.path.glob("epoch-*") if f.name[6:].isdecimal()}


def _parsed(file: Path) -> tuple[History, str | None]:
    """The record in a file and its identity, which old states of epochs do not have."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        identity = stored.pop("identity", None)
        return History.from_dict(stored), identity
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        hint = "remove the folder of this training, to train from scratch"
        raise FolderError(f"{file} cannot be read: {problem!r}.", hint) from problem


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of the random numbers that dropout draws from."""
    state = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["random/cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Weights, device: torch.device) -> None:
    torch.set_rng_state(state["random/cpu"].cpu())
    if device.type == "cuda" and "random/cuda" in state:
        torch.cuda.set_rng_state(state["random/cuda"].cpu(), device)


def copies(weights: Weights) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights.items()}
