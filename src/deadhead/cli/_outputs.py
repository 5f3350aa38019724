"""Check the output of a command before it works: its folder exists and nothing is overwritten.

An interrupted command says what became of the outputs that were checked.
"""

import os
import tempfile
from pathlib import Path

from deadhead.errors import DeadheadError
from deadhead.files import is_draft

checked: dict[Path, list[tuple[str, int]]] = {}  # output of this command -> its files


def kept() -> str:
    """What an interrupted command left: each output is written as a whole or not at all."""
    complete = [str(path) for path, before in checked.items() if _files(path) != before]
    if complete:
        return f"{' and '.join(complete)} is complete."
    return f"nothing was written{' to ' * bool(checked)}{' and '.join(map(str, checked))}."


def _files(path: Path) -> list[tuple[str, int]]:
    """The files of an output with their times; hidden ones are drafts."""
    files = path.glob("[!.]*") if path.is_dir() else [path]
    return sorted((file.name, file.stat().st_mtime_ns) for file in files if file.exists())


def check_file(file: Path | None, option: str, example: str, *, force: bool) -> None:
    """Raise an error unless this file may be written. A device such as /dev/stdout always may."""
    if file is None or (file.exists() and not file.is_file() and not file.is_dir()):
        return
    if file.is_dir():
        hint = f"name a file, for instance {file / example}"
        raise DeadheadError(f"{option} expects a file, got the folder {file}.", hint)
    _check_parent(file, option)
    _check_writable(file, option, file.parent)
    if file.is_file() and not force:
        hint = "name another file, or add --force to overwrite it"
        raise DeadheadError(f"{option} {file}: the file already exists.", hint)
    checked[file] = _files(file)


def check_folder(
    folder: Path, option: str, *, model: str, force: bool, resumes: bool = False
) -> None:
    """Raise an error unless a model may be written into this folder; never into its own source.

    resumes: the folder has an unfinished training that this command may resume.
    """
    if folder.exists() and not folder.is_dir():
        message = f"{option} expects a folder, got the file {folder}."
        raise DeadheadError(message, "name a folder")
    if folder.exists() and folder.resolve() == Path(model).resolve():
        hint = "name another folder"
        raise DeadheadError(f"{option} {folder} is MODEL itself, which would be overwritten.", hint)
    _check_parent(folder, option)
    _check_writable(folder, option, folder if folder.is_dir() else folder.parent)
    names = os.listdir(folder) if folder.is_dir() else []
    # drafts are of a writer that was killed
    if not force and not resumes and not all(map(is_draft, names)):
        hint = "name another folder, or add --force to overwrite its files"
        raise DeadheadError(f"{option} {folder}: the folder is not empty.", hint)
    checked[folder] = _files(folder)


def _check_parent(path: Path, option: str) -> None:
    nearest = next((parent for parent in path.parents if parent.exists()), path.parent)
    if nearest.exists() and not nearest.is_dir():
        raise DeadheadError(f"{option} {path}: {nearest} is not a folder.", "name another folder")
    if not path.parent.is_dir():
        hint = f"create it first: mkdir -p {path.parent}"
        raise DeadheadError(f"{option} {path}: there is no folder {path.parent}.", hint)


def _check_writable(path: Path, option: str, folder: Path) -> None:
    """Raise an error unless a file can be made in the folder: permissions do not say all."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        hint = "name a folder you can write to"
        message = f"{option} {path}: {folder} is not writable ({problem.strerror})."
        raise DeadheadError(message, hint) from problem
