"""Locks on files and folders, which end with the process that took them, even if it is killed."""

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two writers are not kept apart there
    fcntl = None  # type: ignore[assignment]


def lock(path: Path, *, wait: bool = False) -> int | None:
    """Lock a file or folder; None if another writer has it, or if there are no locks here."""
    if fcntl is None:
        return None
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def unlock(handle: int | None) -> None:
    if handle is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough if a forked child has it open
        os.close(handle)
