"""Arrays on disk that are written once, as they come, and read back memory-mapped.

A folder is named by the hash of all that went into it. It is written beside and renamed into place,
so it is whole or absent; two writers may race and either wins. What does not add up is written anew.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FolderError

Arrays = Mapping[str, np.ndarray]


def cache_folder() -> Path:
    """Where encoded data is kept: DEADHEAD_CACHE, or the user's cache folder."""
    named = os.environ.get("DEADHEAD_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deadhead"


def stored(folder: Path, write: Callable[[dict[str, int]], Iterable[Arrays]]) -> tuple[Arrays, dict[str, int]]:
    """The arrays of a folder and the notes kept with them; `write(notes)` yields them in stretches if they are not there yet."""
    found = _load(folder)
    if found is not None:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(draft, write)
        found = _load(folder)  # another writer may have been quicker; then theirs is as good
        if found is None:
            shutil.rmtree(folder, ignore_errors=True)  # damaged
            os.replace(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    found = _load(folder)
    if found is None:
        raise FolderError(
            f"{folder}: what was just written there cannot be read.", "is the disk full? choose another folder with DEADHEAD_CACHE"
        )
    return found


def _write(folder: Path, write: Callable[[dict[str, int]], Iterable[Arrays]]) -> None:
    notes: dict[str, int] = {}
    files: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    types: dict[str, str] = {}
    try:
        for stretch in write(notes):
            for name, values in stretch.items():
                if name not in files:
                    files[name] = (folder / f"{name}.npy").open("wb")
                    sizes[name], types[name] = 0, values.dtype.str
                    _header(files[name], types[name], 0)
                sizes[name] += len(values)
                files[name].write(values.astype(types[name], copy=False).tobytes())
        for name, file in files.items():
            file.seek(0)  # numpy leaves room in the header for the size to grow
            _header(file, types[name], sizes[name])
    finally:
        for file in files.values():
            file.close()
    (folder / "about.json").write_text(json.dumps({"sizes": sizes, "notes": notes}, indent=1, sort_keys=True))


def _header(file: Any, dtype: str, size: int) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": (size,)})


def _load(folder: Path) -> tuple[Arrays, dict[str, int]] | None:
    try:
        about = json.loads((folder / "about.json").read_text())
        arrays = {name: _map(folder / f"{name}.npy") for name in about["sizes"]}
        whole = all(len(arrays[name]) == size for name, size in about["sizes"].items())
        return (arrays, dict(about["notes"])) if whole else None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _map(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
