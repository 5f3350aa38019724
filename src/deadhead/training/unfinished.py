"""A training that was begun by a command and may be killed: what it was asked for, and its states, in OUT/.training.

The same command finds it there and goes on; another command is refused, and told what differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deadhead import files
from deadhead.errors import FolderError

NAME = ".training"


class Unfinished:
    """The folder of a training inside the folder that its model will be written to."""

    def __init__(self, out: Path):
        self.out, self.path = out, out / NAME
        self.file = self.path / "command.json"
        self.made_out = not out.exists()

    @property
    def begun(self) -> bool:
        return self.file.exists()

    @property
    def epochs(self) -> int:
        """Epochs that are kept."""
        try:
            return len(
                json.loads((self.path / "history.json").read_text(encoding="utf-8"))["epochs"]
            )
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ):  # damage is reported when it is read to go on from
            return 0

    def check(self, facts: Mapping[str, Any]) -> None:
        """An error where a training is under way here of which any of these facts is otherwise."""
        if not self.begun:
            return
        try:
            held = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise FolderError(
                f"{self.file} is damaged: {problem}.", "add --force to train from scratch"
            ) from problem
        now = json.loads(json.dumps(facts))
        apart = [
            f"{name} was {held.get(name)} and is {value}"
            for name, value in now.items()
            if held.get(name) != value
        ]
        if apart:
            raise FolderError(
                f"{self.out} holds an unfinished training of another command: {'; '.join(apart)}.",
                "give the same command again to resume it, name another --out, or add --force to train from scratch",
            )

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Note what was asked for, unless it is there already."""
        if self.begun:
            return
        try:
            self.discard()
            self.path.mkdir(parents=True)
            files.write(self.file, json.dumps(facts, indent=1) + "\n")
        except OSError as problem:
            raise FolderError(
                f"{self.path} cannot be written: {problem.strerror}.",
                "name a folder you may write to",
            ) from problem

    def discard(self) -> None:
        """Forget the training."""
        files.remove_folder(self.path)

    def give_up(self) -> None:
        """Leave nothing behind of a training that came to nothing."""
        self.discard()
        if self.made_out:
            with suppress(OSError):  # not empty
                self.out.rmdir()
