"""Arrays on disk that are written once, in stretches, and read back memory-mapped.

A folder is named by the hash of all that went into it, and its `about.json` has the size and the
type and the hash of every array. It is written beside and renamed into place, so it is complete or absent; if
two writers race, either wins. A folder whose content does not have its hash is written again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import FolderError

Arrays = Mapping[str, np.ndarray]
Write = Callable[[dict[str, int]], Iterable[Arrays]]  # fills notes, yields stretches of the arrays
CHUNK = 1 << 22  # bytes hashed at a time


def stored(folder: Path, write: Write) -> tuple[Arrays, dict[str, int]]:
    """Return the arrays of a folder and their notes; call `write` if they are not there yet."""
    content = _load(folder)
    if content is not None:
        return content
    own: list[tuple[Arrays, dict[str, int]] | None] = []

    def fill(draft: Path) -> None:
        _write(draft, write)
        own.append(_load(draft))  # mapped, so they stay whatever other writers do to the folder

    folder.parent.mkdir(parents=True, exist_ok=True)
    # Keep a complete folder of another writer. No sync: a power cut only costs writing it again.
    files.put_folder(folder, fill, durable=False, replace=folder.exists())
    if own[-1] is None:
        hint = "is the disk full? choose another folder with DEADHEAD_CACHE"
        raise FolderError(f"{folder}: what was just written there cannot be read.", hint)
    return own[-1]


def _write(folder: Path, write: Write) -> None:
    about: dict[str, Any] = {"sizes": {}, "types": {}, "hashes": {}, "notes": {}}
    with ExitStack() as stack:
        streams: dict[str, Any] = {}
        for stretch in write(about["notes"]):
            for name, values in stretch.items():
                if name not in streams:
                    streams[name] = stack.enter_context((folder / name).open("wb"))
                    about["sizes"][name], about["types"][name] = 0, values.dtype.str
                about["sizes"][name] += len(values)
                streams[name].write(values.astype(about["types"][name], copy=False).tobytes())
    about["hashes"] = {name: _hash(folder / name) for name in streams}
    text = json.dumps(about, indent=1, sort_keys=True)
    (folder / "about.json").write_text(text, encoding="utf-8")


def _load(folder: Path) -> tuple[Arrays, dict[str, int]] | None:
    """Return what the folder holds; None if it is damaged, or of an older form."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        for name, expected in about["hashes"].items():
            if _hash(folder / name) != expected:
                return None
        arrays = {
            name: np.memmap(folder / name, about["types"][name], "r", shape=(size,))
            if size
            else np.zeros(0, about["types"][name])  # an empty file cannot be mapped
            for name, size in about["sizes"].items()
        }
        return arrays, dict(about["notes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _hash(path: Path) -> str:
    content = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            content.update(chunk)
    return content.hexdigest()
