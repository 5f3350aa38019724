"""Files and folders that are put in place whole: written beside, synced to the disk, renamed.

A process may be killed and the power may fail at any moment: what has its final name is whole.
Where a lost file costs nothing but work done again, `durable=False` leaves out the sync.

    write(path, text)               a file of this text or these bytes
    put(path, fill)                 a file that `fill(draft)` writes
    put_folder(home, fill)          a folder that `fill(draft)` writes
    remove_folder(folder)           a folder goes, whole or not at all
    remove_drafts(folder)           what killed writers left behind

All raise OSError; the caller knows what to tell the user.
"""

from __future__ import annotations

import errno
import os
import queue
import secrets
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

DRAFT = ".draft"
TRIES = 20  # of several writers that replace one folder at the same time
NO_SYNC = (
    errno.EINVAL,
    errno.ENOTSUP,
    errno.EBADF,
    errno.EACCES,
    errno.EPERM,
)  # of folders, on some file systems
EXISTS = (errno.EEXIST, errno.ENOTEMPTY)


def draft_of(path: Path) -> Path:
    """A new name beside a file or folder: no other writer, thread or machine has the same one."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}{DRAFT}")


def is_draft(name: str) -> bool:
    return name.endswith(DRAFT) or name.startswith(
        ".draft-"
    )  # the second as earlier versions named them


def write(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Put a file in its place, whole or not at all. A link there is replaced, never followed."""
    draft = draft_of(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(draft, flags, 0o666), "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _rename(draft, path, durable)
    finally:
        _discard(draft)


def put(path: Path, fill: Callable[[Path], Any], *, durable: bool = True) -> None:
    """The same for a file that `fill` writes to the path it is given. A device is written to directly."""
    if path.exists() and not path.is_file():  # /dev/stdout must stay what it is
        fill(path)
        return
    draft = draft_of(path)
    try:
        fill(draft)
        if durable:
            sync(draft)
        _rename(draft, path, durable)
    finally:
        _discard(draft)


def put_folder(
    home: Path, fill: Callable[[Path], Any], *, durable: bool = True, replace: bool = True
) -> None:
    """The same for a folder. One that is there is replaced, or kept with `replace=False`."""
    draft = draft_of(home)
    try:
        draft.mkdir()
        fill(draft)
        if durable:
            sync_tree(draft)
        replace_folder(draft, home, keep=not replace)
        if durable:
            sync(home.parent)
    finally:
        _discard(draft)


def replace_folder(draft: Path, home: Path, *, keep: bool = False) -> None:
    """Rename a folder to its place. Of several writers at the same time the last one wins, with `keep` the first."""
    for attempt in range(TRIES):
        try:
            os.rename(draft, home)
            return
        except OSError as problem:
            if problem.errno not in EXISTS or attempt == TRIES - 1:
                raise
        if keep and home.is_dir():  # else another writer is just replacing it
            return
        aside = draft_of(home)
        with suppress(FileNotFoundError):  # another writer has moved it already
            os.rename(home, aside)
            _discard(aside)


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
    for at, _, names in os.walk(folder):
        for name in names:
            sync(Path(at) / name)
        sync(Path(at))


def remove_folder(folder: Path) -> None:
    """Delete a folder: for whoever looks it is whole or gone, also if this process is killed meanwhile."""
    draft = draft_of(folder)
    try:
        os.rename(folder, draft)
    except FileNotFoundError:
        return
    except OSError:
        draft = folder
    shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Delete what killed writers left in a folder. Only while nobody writes there."""
    for entry in list(os.scandir(folder)):
        if is_draft(entry.name):
            _discard(Path(entry.path))


class Syncer:
    """Syncs files in a thread, many at a time: whoever writes thousands of small ones does not wait for each.

    error: makes what is raised out of the file that could not be synced and the OSError.
    """

    def __init__(
        self, error: Callable[[Path, OSError], Exception] = lambda path, problem: problem
    ) -> None:
        self._error = error
        self._paths: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._problem: Exception | None = None

    def add(self, path: Path) -> None:
        """Sync this file and its name soon; an earlier file that could not be synced is reported here."""
        self._paths.put(path)
        self._check()

    def __enter__(self) -> Syncer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._paths.put(None)
        self._thread.join()
        if problem is None:
            self._check()

    def _check(self) -> None:
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _work(self) -> None:
        path = self._paths.get()
        while path is not None:
            folders = {path.parent}
            while path is not None:
                folders.add(path.parent)
                self._sync(path)
                try:
                    path = self._paths.get_nowait()
                except queue.Empty:
                    break
            for folder in folders:
                self._sync(folder)
            path = self._paths.get() if path is not None else None

    def _sync(self, path: Path) -> None:
        try:
            sync(path)
        except FileNotFoundError:
            pass  # deleted or replaced since
        except OSError as problem:
            self._problem = self._problem or self._error(path, problem)


def _rename(draft: Path, path: Path, durable: bool) -> None:
    os.replace(draft, path)
    if durable:
        sync(path.parent)


def _discard(path: Path) -> None:
    """Delete a draft, if it is still there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
