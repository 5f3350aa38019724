"""Errors for a disk that refuses: full, read-only, or somebody else's; and results as JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, FolderError

from . import put


@contextmanager
def writing(target: str | Path) -> Iterator[None]:
    """Report a disk that refuses as a FolderError."""
    from safetensors import SafetensorError  # which is no OSError, also if the disk is full

    try:
        yield
    except (OSError, SafetensorError) as problem:
        message = f"{target} cannot be written: {getattr(problem, 'strerror', None) or problem}."
        hint = "name a folder you can write to, or free some space"
        raise FolderError(message, hint) from problem


def write_json(content: Any, path: str | Path, example: str, *, indent: int | None = None) -> Path:
    """Write results; the file is whole or absent. example: a name for the hint."""
    target, text = Path(path), json.dumps(content, indent=indent) + "\n"
    if target.is_dir():
        hint = f"name a file, for instance {target / example}"
        raise DataError(f"{target} is a folder.", hint)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        put(target, lambda draft: draft.write_text(text, encoding="utf-8"))
    except OSError as problem:
        message = f"{target} could not be written: {problem.strerror}."
        raise DataError(message, "free some space, or name another file") from problem
    return target
