"""Which release of Universal Dependencies a treebank is from, as far as its folder says."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from deadhead.errors import DataError
from deadhead.tasks.reading.lines import lines

# The folder that the archive of a release unpacks to.
RELEASE_FOLDER = re.compile(r"ud-treebanks-v([0-9]+\.[0-9]+)", re.IGNORECASE)
VERSION = re.compile(r"\bv?([12]\.[0-9]{1,2})\b", re.IGNORECASE)
READMES = ("README.md", "README.txt", "README")


def release_of(file: Path) -> str:
    """Return `2.7, by its folder`, `2.7 or later, by its README`, or nothing."""
    for part in reversed(file.resolve().parts):
        if match := RELEASE_FOLDER.search(part):
            return f"{match[1]}, by its folder"
    newest = _last_change(file.parent)
    return f"{newest} or later, by its README" if newest else ""


@lru_cache(maxsize=256)
def _last_change(folder: Path) -> str:
    """Return the newest release in a treebank's change log; later ones did not change it."""
    readme = next((folder / name for name in READMES if (folder / name).is_file()), None)
    if readme is None:
        return ""
    try:
        text = "\n".join(line for _, line in lines(readme))
    except DataError:
        return ""
    _, _, log = text.lower().partition("changelog")
    versions = VERSION.findall(log)
    return max(versions, key=lambda version: tuple(map(int, version.split("."))), default="")
