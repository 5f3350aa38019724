"""Where computed files are kept to be used again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return DEADHEAD_CACHE, or `deadhead` in the user's cache folder."""
    if named := os.environ.get("DEADHEAD_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deadhead"
