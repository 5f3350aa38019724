"""A training on disk, so that a kill costs at most the epoch that was under way.

    FOLDER/history.json               what came of it so far
    FOLDER/{first,best,last}.safetensors
    FOLDER/after-N.safetensors        weights to be averaged in the end
    FOLDER/epoch-N/                   all that the next epoch depends on; only the latest is kept

Everything is written beside and renamed, so each file is whole or absent, and nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import FolderError
from .history import KEPT, History, read, write


def identity(*parts: Any) -> str:
    """A hash of all that decides how a training goes on."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class Folder:
    """The folder of one training."""

    def __init__(self, path: str | Path, identity: str):
        self.path, self.identity = Path(path), identity
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FolderError(f"{path} cannot be written: {problem.strerror}.", "name a folder you may write to") from problem
        for draft in self.path.glob(".draft-*"):  # of a run that was killed
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()

    def history(self) -> History | None:
        """What is known of the training, if it has begun."""
        file = self.path / "history.json"
        if not file.exists():
            return None
        try:
            held = json.loads(file.read_text(encoding="utf-8"))
            mine = held.pop("identity")
            found = History.from_dict(held)
        except (ValueError, KeyError, TypeError) as problem:
            raise FolderError(f"{file} is damaged.", "remove the folder and train anew") from problem
        if mine != self.identity:
            raise FolderError(
                f"{self.path} holds another training: its settings, data, heads or shapes of weights differ.",
                "name another folder, or remove this one",
            )
        found.weights = self.weights()
        return found

    def weights(self) -> dict[str, Any]:
        files = {which: self.path / f"{which}.safetensors" for which in KEPT}
        return {which: file for which, file in files.items() if file.exists()}

    def keep(self, which: str, weights: Mapping[str, Tensor]) -> Path:
        self._write(self.path / f"{which}.safetensors", weights)
        return self.path / f"{which}.safetensors"

    def after(self) -> dict[int, Path]:
        """The weights kept for their mean, by epoch."""
        return {int(f.stem[6:]): f for f in self.path.glob("after-*.safetensors") if f.stem[6:].isdecimal()}

    def write(self, history: History) -> None:
        draft = self.path / f".draft-{os.getpid()}.json"
        draft.write_text(json.dumps({"identity": self.identity, **history.to_dict()}, indent=1), encoding="utf-8")
        os.replace(draft, self.path / "history.json")

    def save(self, epoch: int, history: History, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor]) -> None:
        """All that the next epoch depends on."""
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.path))
        self._write(draft / "weights.safetensors", weights)
        self._write(draft / "moments.safetensors", {**moments, **random_state(next(iter(weights.values())).device)})
        (draft / "history.json").write_text(json.dumps(history.to_dict()), encoding="utf-8")
        target = self.path / f"epoch-{epoch}"
        shutil.rmtree(target, ignore_errors=True)
        os.replace(draft, target)
        self.write(history)
        self.clear(epoch)

    def load(self) -> tuple[History, dict[str, Tensor], dict[str, Tensor]] | None:
        """The state after the latest whole epoch, if there is one."""
        found = sorted(self._epochs())
        if not found:
            return None
        folder = self.path / f"epoch-{found[-1]}"
        try:
            history = History.from_dict(json.loads((folder / "history.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FolderError(f"{folder / 'history.json'} is damaged.", f"remove {self.path} and train anew") from problem
        history.weights = self.weights()
        return history, read(folder / "weights.safetensors"), read(folder / "moments.safetensors")

    def clear(self, but: int | None = None) -> None:
        """Remove the states of earlier epochs; of all, once it is over."""
        for number in self._epochs():
            if number != but:
                shutil.rmtree(self.path / f"epoch-{number}", ignore_errors=True)
        for file in () if but else self.after().values():
            file.unlink()

    def _epochs(self) -> list[int]:
        return [int(f.name[6:]) for f in self.path.glob("epoch-*") if f.name[6:].isdecimal()]

    @staticmethod
    def _write(target: Path, tensors: Mapping[str, Tensor]) -> None:
        draft = target.with_name(f".draft-{os.getpid()}-{target.name}")
        try:
            write(draft, tensors)
            os.replace(draft, target)
        except OSError as problem:
            raise FolderError(f"{target} could not be written: {problem}.", "free some space, or name another folder") from problem


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of the random numbers that dropout draws from."""
    found = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["random/cuda"] = torch.cuda.get_rng_state(device)
    return found


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["random/cpu"].cpu())
    if device.type == "cuda" and "random/cuda" in state:
        torch.cuda.set_rng_state(state["random/cuda"].cpu(), device)
