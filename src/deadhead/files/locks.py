"""Locks on files and folders, which end with the process that took them, even if it is killed."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

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


class Claim(NamedTuple):
    """The right of one process to write an output."""

    file: Path
    handle: int

    def give_up(self) -> None:
        with suppress(OSError):
            self.file.unlink()
        unlock(self.handle)


def claim(output: Path, folder: Path) -> Claim | None:
    """Keep other processes from this output, which need not exist; None where nothing is locked.

    folder: where the locks are. Raises BlockingIOError if another process has the output.
    """
    if fcntl is None:
        return None
    name = hashlib.sha256(os.path.realpath(output).encode()).hexdigest()[:32]
    file = folder / f"{name}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(file)):
                    return Claim(file, handle)
            except FileNotFoundError:
                pass  # its last owner gave it up, as below
            except OSError:
                os.close(handle)
                raise
            os.close(handle)
    except BlockingIOError:
        raise
    except OSError:  # no cache folder, or a file system without locks
        return None
