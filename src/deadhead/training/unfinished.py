"""An interrupted `deadhead finetune`: its arguments and its state, in OUT/.training.

The same command resumes it. Another command for the same folder is refused, with the differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deadhead import files
from deadhead.errors import FolderError

from .checkpoint import writing

NAME = ".training"


class Unfinished:
    """The folder of a training inside the folder that its model will be written to."""

    def __init__(self, out: Path):
        self.out = out
        self.path = out / NAME
        self.file = self.path / "command.json"
        self.created_out = not out.exists()

    @property
    def begun(self) -> bool:
        return self.file.exists()

    @property
    def epochs(self) -> int:
        """The number of finished epochs."""
        try:
            text = (self.path / "history.json").read_text(encoding="utf-8")
            return len(json.loads(text)["epochs"])
        except (OSError, ValueError, KeyError, TypeError):  # reported when the training resumes
            return 0

    def check(self, command: Mapping[str, Any], *, force: bool = False) -> None:
        """Raise an error if another command was begun here, or with `force`, discard it."""
        if not self.begun:
            return
        try:
            self._compare(json.loads(json.dumps(command)))
        except FolderError:
            if not force:
                raise
            self.discard()

    def _compare(self, command: dict[str, Any]) -> None:
        try:
            stored = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            hint = "add --force to train from scratch"
            raise FolderError(f"{self.file} is damaged: {problem}.", hint) from problem
        differences = [
            f"{name} was {stored.get(name)} and is {value}"
            for name, value in command.items()
            if stored.get(name) != value
        ]
        if differences:
            message = f"{self.out} has an unfinished training of another command: "
            hint = "repeat the same command to resume it, name another --out, or add --force"
            raise FolderError(
                f"{message}{'; '.join(differences)}.", f"{hint} to train from scratch"
            )

    def begin(self, command: Mapping[str, Any]) -> None:
        """Store the command, unless it is stored already."""
        if self.begun:
            return
        with writing(self.path):
            self.discard()
            self.path.mkdir(parents=True)
            files.write(self.file, json.dumps(command, indent=1) + "\n")

    def discard(self) -> None:
        """Delete the state of the training."""
        files.remove_folder(self.path)

    def give_up(self) -> None:
        """Delete the state, and the output folder if this training created it."""
        self.discard()
        if self.created_out:
            with suppress(OSError):  # not empty
                self.out.rmdir()
