"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

from ..studies.folder import refused


def put(path: Path, made: bytes) -> Path:
    """A file in its place, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(made)
        os.replace(draft, path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise refused(path, problem) from problem
    return path
