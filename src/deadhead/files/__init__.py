"""Files and folders that are whole or absent: write a draft, sync it to the disk, rename it.

A process may be killed and the power may fail at any moment: whatever has its final name is
complete. Pass `durable=False` to skip the sync where a lost file only costs work done again.

    write(path, text)               write a file of this text or these bytes
    put(path, fill)                 write a file with `fill(draft)`
    put_folder(path, fill)          write a folder with `fill(draft)`
    remove_folder(path)             delete a folder, whole or not at all
    remove_drafts(folder)           delete what killed writers left behind
    cache_folder()                  where computed files are kept to be used again

All raise OSError; the caller knows how to report it, or leaves that to `writing`. Every
write-then-rename of the package is here: `model_folder` replaces a saved model of many files, and
`export_folder` the files of an export.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: two writers are not kept apart there
    fcntl = None  # type: ignore[assignment]

DRAFT = ".draft"
OLD_DRAFT = ".draft-"  # how `model_folder` and earlier versions begin the names of drafts
TRIES = 20  # while other writers replace the same folder
# some file systems refuse to sync folders with one of these
NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM)
EXISTS = (errno.EEXIST, errno.ENOTEMPTY)


def lock(path: Path, *, wait: bool = False) -> int | None:
    """Lock a file or folder until this process ends.

    None if another writer has it, or if there are no locks here.
    """
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


def draft_of(path: Path) -> Path:
    """A new name beside a file or folder, which no other writer, thread or machine uses."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}{DRAFT}")


def is_draft(name: str) -> bool:
    return name.startswith(".") and (name.endswith(DRAFT) or name.startswith(OLD_DRAFT))


def write(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a file. A link at its path is replaced, never followed."""
    draft = draft_of(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(draft, flags, 0o666), "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
        if durable:
            sync(path.parent)
    finally:
        _discard(draft)


def put(path: Path, fill: Callable[[Path], Any], *, durable: bool = True) -> None:
    """Have `fill(draft)` write a file, then rename it. A device is written to directly."""
    if path.exists() and not path.is_file():  # /dev/stdout must stay what it is
        fill(path)
        return
    with _drafting(path, Path.touch) as draft:
        fill(draft)
        if durable:
            sync(draft)
        os.replace(draft, path)
        if durable:
            sync(path.parent)


def put_folder(path: Path, fill: Callable[[Path], Any], *, replace: bool = True) -> None:
    """Have `fill(draft)` write a folder, then rename it. `replace=False` keeps an existing one.

    For what can be computed again: if the process is killed while it replaces a folder, there is
    none. `model_folder` and `export_folder` replace folders of users.
    """
    with _drafting(path, Path.mkdir) as draft:
        fill(draft)
        sync_tree(draft)
        _rename_folder(draft, path, replace=replace)
        sync(path.parent)


@contextmanager
def _drafting(path: Path, create: Callable[[Path], Any]) -> Iterator[Path]:
    """A draft of a file or folder, deleted at the end; it is locked, so that others keep it."""
    remove_abandoned(path)
    while True:
        draft = draft_of(path)
        create(draft)
        try:
            handle = lock(draft, wait=True)
        except FileNotFoundError:
            continue
        if draft.exists():  # otherwise another writer took it for abandoned
            break
        unlock(handle)
    try:
        yield draft
    finally:
        unlock(handle)
        _discard(draft)


def remove_abandoned(path: Path) -> None:
    """Delete drafts of this file or folder whose writer was killed: nobody locks them."""
    names = re.compile(rf"\.{re.escape(path.name[:40])}\.[0-9a-f]{{8}}{re.escape(DRAFT)}")
    for name in os.listdir(path.parent):
        if names.fullmatch(name) and not (draft := path.with_name(name)).is_symlink():
            with suppress(OSError):  # it is gone, or belongs to somebody else
                if (handle := lock(draft)) is not None:
                    _discard(draft)
                    unlock(handle)


def _rename_folder(draft: Path, path: Path, *, replace: bool) -> None:
    """Rename a folder. Of several writers the last wins, or without `replace` the first."""
    for attempt in range(TRIES):
        try:
            os.rename(draft, path)
            return
        except OSError as problem:
            if problem.errno not in EXISTS or attempt == TRIES - 1:
                raise
        if not replace and path.is_dir():  # otherwise another writer is replacing it now
            return
        remove_folder(path)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        if not folder or problem.errno not in NO_SYNC:
            raise


def sync_tree(folder: Path) -> None:
    """Wait until all files of a folder are on the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))


def remove_folder(folder: Path) -> None:
    """Delete a folder: readers see all of it or nothing, even if this process is killed."""
    draft = draft_of(folder)
    try:
        os.rename(folder, draft)
    except FileNotFoundError:
        return
    except OSError:
        draft = folder
    shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Delete what killed writers left in a folder. Call it only while nobody writes there."""
    for entry in list(os.scandir(folder)):
        if is_draft(entry.name):
            _discard(Path(entry.path))


def _discard(path: Path) -> None:
    """Delete a draft, if it is still there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def cache_folder() -> Path:
    """Where computed files are kept: DEADHEAD_CACHE, or `deadhead` in the user's cache folder."""
    if named := os.environ.get("DEADHEAD_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deadhead"
