"""Where a command writes, by one rule: looked at before the work, in a folder that is there, over nothing that is there but with --force."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deadhead.errors import DeadheadError

Force = Annotated[bool, typer.Option("--force", help="Write over what is there.")]


def check_file(file: Path | None, option: str, example: str, *, force: bool) -> None:
    """An error unless this file, if one was named, may be written. A device such as /dev/stdout has nothing to lose."""
    if file is None or (file.exists() and not file.is_file() and not file.is_dir()):
        return
    if file.is_dir():
        raise DeadheadError(
            f"{option} {file} is a folder.", f"name a file, for instance {file / example}"
        )
    _check_parent(file, option)
    _check_writable(file, option, file.parent)
    if file.is_file() and not force:
        raise DeadheadError(
            f"{option} {file}: the file is there already.",
            "name another file, or add --force to write over it",
        )


def check_folder(
    folder: Path, option: str, *, model: str, force: bool, unfinished: bool = False
) -> None:
    """An error unless a model may be written into this folder; its own source it may never be.

    unfinished: the folder holds what this command began, and may go on with.
    """
    if folder.exists() and not folder.is_dir():
        raise DeadheadError(f"{option} {folder} is a file.", "name a folder")
    if folder.exists() and folder.resolve() == Path(model).resolve():
        raise DeadheadError(
            f"{option} {folder} is MODEL itself, which would be lost.", "name another folder"
        )
    _check_parent(folder, option)
    _check_writable(folder, option, folder if folder.is_dir() else folder.parent)
    if folder.is_dir() and any(folder.iterdir()) and not force and not unfinished:
        raise DeadheadError(
            f"{option} {folder}: the folder holds files already.",
            "name another folder, or add --force to write over them",
        )


def _check_parent(path: Path, option: str) -> None:
    if not path.parent.is_dir():
        raise DeadheadError(
            f"{option} {path}: there is no folder {path.parent}.",
            f"make it first: mkdir -p {path.parent}",
        )


def _check_writable(path: Path, option: str, into: Path) -> None:
    if not os.access(into, os.W_OK | os.X_OK):
        raise DeadheadError(
            f"{option} {path}: nothing can be written into {into}.",
            "name a folder you may write to",
        )
