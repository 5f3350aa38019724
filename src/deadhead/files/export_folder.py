"""Write a folder of files again and again, and replace only what was written there before.

A hidden list in the folder names the files of the last export. Any other file belongs to the user:
it is never overwritten or deleted, and the next export refuses the folder, with its name. The files
are replaced as those of a saved model are, so a killed export is completed by the next.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError

from . import write
from .model_folder import content, draft_in, finish_save, swap

LIST = ".deadhead-files.json"
NAMED = 5  # files in a message


def put_export(folder: Path, fill: Callable[[Path], Any]) -> None:
    """Have `fill(draft)` write the files of an export, and put them into the folder."""
    with draft_in(folder) as draft:
        fill(draft)
        check_export(folder)  # again: writing takes minutes
        old, new = _listed(folder), {file.as_posix() for file in content(draft)[1]}
        _write_list(draft, old | new)
        swap(draft, folder)
        if stale := old - new:
            _remove(folder, stale)
            _write_list(folder, new)


def check_export(folder: Path) -> None:
    """Raise an error if a folder has files of others. Hidden ones never matter: none is written."""
    if not folder.is_dir():
        return
    finish_save(folder)
    own = _listed(folder)
    others = [file for file in content(folder)[1] if file.as_posix() not in own]
    names = sorted({file.parts[0] for file in others if file.parts[0][0] != "."})
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise FolderError(
            f"{folder} has files that no export wrote: {', '.join(names[:NAMED])}{more}.",
            "move them away, or name a new folder",
        )


def _listed(folder: Path) -> set[str]:
    """The files that exports wrote; none if the list is missing or damaged."""
    try:
        return set(map(str, json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()


def _write_list(folder: Path, names: set[str]) -> None:
    write(folder / LIST, json.dumps({"files": sorted(names)}, indent=1) + "\n")


def _remove(folder: Path, names: set[str]) -> None:
    """Delete files, and folders that are empty then. A listed name may come from a stranger."""
    folders, files = content(folder)  # none of them is behind a link
    for file in files:
        if file.as_posix() in names:
            (folder / file).unlink()
    for inside in reversed(folders):
        if any(name.startswith(f"{inside.as_posix()}/") for name in names):
            with suppress(OSError):  # not empty
                (folder / inside).rmdir()
