"""One error for a disk that refuses: full, read-only, or somebody else's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deadhead.errors import FolderError


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
