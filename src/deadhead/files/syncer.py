"""Sync many small files in a thread, so that their writer does not wait for each."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

from .atomic import sync


class Syncer:
    """Sync the files that `add` names, and the folders that hold their names.

    error: builds the exception to raise from the file that could not be synced and the OSError.
    """

    def __init__(
        self, error: Callable[[Path, OSError], Exception] = lambda path, problem: problem
    ) -> None:
        self._error = error
        self._paths: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._problem: Exception | None = None

    def add(self, path: Path) -> None:
        """Sync this file and its name soon; raise the error of an earlier file, if there is one."""
        self._paths.put(path)
        self._check()

    def __enter__(self) -> Syncer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._paths.put(None)
        self._thread.join()
        if kind is None:
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
