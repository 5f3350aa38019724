"""A training on disk: if it is killed, at most the current epoch is lost.

    FOLDER/history.json               the record so far
    FOLDER/{first,best,last}.safetensors
    FOLDER/after-N.safetensors        weights to be averaged in the end
    FOLDER/epoch-N/                   all that the next epoch depends on; only the latest is kept
    FOLDER/damaged/                   a damaged state; the training then starts from scratch

Files are written beside, synced and renamed, so each is whole or absent. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deadhead import files
from deadhead.errors import FolderError

from .history import KEPT, History, is_whole, read, write


def identity(*parts: Any) -> str:
    """A hash of everything that a training depends on."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class Folder:
    """The folder of one training."""

    def __init__(self, path: str | Path, identity: str):
        self.path = Path(path)
        self.identity = identity
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FolderError(
                f"{path} cannot be written: {problem.strerror}.", "name a folder you can write to"
            ) from problem
        files.remove_drafts(self.path)  # of a run that was killed
        self.damage: list[str] = []  # sentences about damaged files

    def history(self) -> History | None:
        """The record, if the training was begun and did not fail. A damaged one is set aside."""
        damaged = next(self._damaged(), None)
        if damaged is not None:
            self._set_aside(damaged)
            return None
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
            raise FolderError(
                f"{self.path} has another training: its settings, data, heads or shapes differ.",
                "name another folder, or remove this one",
            )

    def _damaged(self) -> Iterator[str]:
        """Messages about files that were cut short or cannot be read."""
        epochs = [self.path / f"epoch-{number}" for number in self._epochs()]
        for file in (self.path / "history.json", *(folder / "history.json" for folder in epochs)):
            try:
                history, _ = _parsed(file)
            except FileNotFoundError:
                if file.parent != self.path:
                    yield f"{file.relative_to(self.path)} is missing"
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                yield f"{file.relative_to(self.path)} cannot be read"
            else:
                if history.state == "done" and not (self.path / "last.safetensors").exists():
                    yield "last.safetensors is missing"
        names = ("weights.safetensors", "moments.safetensors")
        states = [folder / name for folder in epochs for name in names]
        for file in (*self.weights().values(), *self.after().values(), *states):
            if not is_whole(file):
                yield f"{file.relative_to(self.path)} was cut short"

    def _set_aside(self, reason: str) -> None:
        """Move everything to FOLDER/damaged, so that the training starts from scratch."""
        damaged = self.path / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)  # the training has been repeated since
        damaged.mkdir()
        ours = [self.path / "history.json", *self.weights().values(), *self.after().values()]
        for entry in (*ours, *(self.path / f"epoch-{number}" for number in self._epochs())):
            if entry.exists():
                entry.rename(damaged / entry.name)
        self.damage.append(f"the saved state was damaged ({reason}): trained from scratch")

    def weights(self) -> dict[str, Any]:
        files = {which: self.path / f"{which}.safetensors" for which in KEPT}
        return {which: file for which, file in files.items() if file.exists()}

    def keep(self, which: str, weights: Mapping[str, Tensor]) -> Path:
        target = self.path / f"{which}.safetensors"
        try:
            files.put(target, lambda draft: write(draft, weights))
        except OSError as problem:
            raise _refused(target, problem) from problem
        return target

    def after(self) -> dict[int, Path]:
        """The weights kept for their mean, by epoch."""
        paths = self.path.glob("after-*.safetensors")
        return {int(f.stem[6:]): f for f in paths if f.stem[6:].isdecimal()}

    def write(self, history: History) -> None:
        try:
            files.write(self.path / "history.json", self._text(history))
        except OSError as problem:
            raise _refused(self.path / "history.json", problem) from problem

    def _text(self, history: History) -> str:
        return json.dumps({"identity": self.identity, **history.to_dict()}, indent=1)

    def save(
        self,
        epoch: int,
        history: History,
        weights: Mapping[str, Tensor],
        moments: Mapping[str, Tensor],
    ) -> None:
        """Keep all that the next epoch depends on."""

        def fill(draft: Path) -> None:
            write(draft / "weights.safetensors", weights)
            random = random_state(next(iter(weights.values())).device)
            write(draft / "moments.safetensors", {**moments, **random})
            (draft / "history.json").write_text(self._text(history), encoding="utf-8")

        try:
            files.put_folder(self.path / f"epoch-{epoch}", fill)
        except OSError as problem:
            raise _refused(self.path / f"epoch-{epoch}", problem) from problem
        self.write(history)
        self.clear(epoch)

    def load(self) -> tuple[History, dict[str, Tensor], dict[str, Tensor]] | None:
        """The state after the latest epoch, if any. Call `history` first: it checks for damage."""
        epochs = sorted(self._epochs())
        if not epochs:
            return None
        folder = self.path / f"epoch-{epochs[-1]}"
        history, identity = _parsed(folder / "history.json")
        self._check(identity or self.identity)
        history.weights = self.weights()
        return history, read(folder / "weights.safetensors"), read(folder / "moments.safetensors")

    def clear(self, but: int | None = None) -> None:
        """Remove the states of all other epochs; without a number, everything but the results."""
        for number in self._epochs():
            if number != but:
                files.remove_folder(self.path / f"epoch-{number}")
        for file in () if but else self.after().values():
            file.unlink()

    def _epochs(self) -> list[int]:
        return [int(f.name[6:]) for f in self.path.glob("epoch-*") if f.name[6:].isdecimal()]


def _parsed(file: Path) -> tuple[History, str | None]:
    """The record in a file and its identity, which old states of epochs do not have."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    identity = stored.pop("identity", None)
    return History.from_dict(stored), identity


def _refused(target: Path, problem: OSError) -> FolderError:
    return FolderError(
        f"{target} could not be written: {problem}.", "free some space, or name another folder"
    )


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of the random numbers that dropout draws from."""
    state = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["random/cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["random/cpu"].cpu())
    if device.type == "cuda" and "random/cuda" in state:
        torch.cuda.set_rng_state(state["random/cuda"].cpu(), device)
