"""Arrays on disk that are written once, as they come, and read back memory-mapped.

A folder is named by the hash of all that went into it, and `about.json` in it holds the size and the
hash of every array. It is written beside and renamed into place, so it is whole or absent; two writers
may race and either wins. A folder whose content does not have its hash is written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import FolderError

Arrays = Mapping[str, np.ndarray]
CHUNK = 1 << 22  # bytes hashed at a time


def cache_folder() -> Path:
    """Where encoded data is kept: DEADHEAD_CACHE, or the user's cache folder."""
    named = os.environ.get("DEADHEAD_CACHE")
    return (
        Path(named)
        if named
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deadhead"
    )


def stored(
    folder: Path, write: Callable[[dict[str, int]], Iterable[Arrays]]
) -> tuple[Arrays, dict[str, int]]:
    """The arrays of a folder and the notes kept with them; `write(notes)` yields them in stretches if they are not there yet."""
    content = _load(folder)
    if content is not None:
        return content
    own: list[tuple[Arrays, dict[str, int]] | None] = []

    def fill(draft: Path) -> None:
        _write(draft, write)
        own.append(_load(draft))  # mapped, so they stay whatever other writers do to the folder

    folder.parent.mkdir(parents=True, exist_ok=True)
    # a whole folder of another writer is kept; without a sync, since a power cut only costs writing it again
    files.put_folder(folder, fill, durable=False, replace=folder.exists())
    if own[-1] is None:
        raise FolderError(
            f"{folder}: what was just written there cannot be read.",
            "is the disk full? choose another folder with DEADHEAD_CACHE",
        )
    return own[-1]


def _write(folder: Path, write: Callable[[dict[str, int]], Iterable[Arrays]]) -> None:
    notes: dict[str, int] = {}
    streams: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    types: dict[str, str] = {}
    try:
        for stretch in write(notes):
            for name, values in stretch.items():
                if name not in streams:
                    streams[name] = (folder / f"{name}.npy").open("wb")
                    sizes[name], types[name] = 0, values.dtype.str
                    _header(streams[name], types[name], 0)
                sizes[name] += len(values)
                streams[name].write(values.astype(types[name], copy=False).tobytes())
        for name, stream in streams.items():
            stream.seek(0)  # numpy leaves room in the header for the size to grow
            _header(stream, types[name], sizes[name])
    finally:
        for stream in streams.values():
            stream.close()
    hashes = {name: _hash(folder / f"{name}.npy") for name in streams}
    about = {"sizes": sizes, "notes": notes, "hashes": hashes}
    (folder / "about.json").write_text(
        json.dumps(about, indent=1, sort_keys=True), encoding="utf-8"
    )


def _header(stream: Any, dtype: str, size: int) -> None:
    np.lib.format.write_array_header_1_0(
        stream, {"descr": dtype, "fortran_order": False, "shape": (size,)}
    )


def _load(folder: Path) -> tuple[Arrays, dict[str, int]] | None:
    """What the folder holds; None where it is not whole, or was written before hashes were kept."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        arrays = {name: _map(folder / f"{name}.npy") for name in about["sizes"]}
        whole = all(
            len(arrays[name]) == size and _hash(folder / f"{name}.npy") == about["hashes"][name]
            for name, size in about["sizes"].items()
        )
        return (arrays, dict(about["notes"])) if whole else None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _hash(path: Path) -> str:
    content = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            content.update(chunk)
    return content.hexdigest()


def _map(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
