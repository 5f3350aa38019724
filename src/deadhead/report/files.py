"""Files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

from deadhead.studies.store import folder as place


def put(path: Path, made: bytes) -> Path:
    """A file in its place, whole or not at all."""
    place.put(path, lambda draft: draft.write_bytes(made))
    return path
