"""Replace a saved model by a new one; a kill at any moment leaves one of the two, complete.

    with draft_in(folder) as draft:     an empty folder inside the model's folder, for the new files
        ...
        swap(draft, folder)             move them into place
    finish_save(folder)                 complete an interrupted swap; every reader calls it first

A folder of many files cannot be replaced in one step. So the draft is written and synced first,
and then a marker file names it: from here on the new model counts. If the process is killed after
that, `finish_save` moves the files that are still in the draft. A marker may come from a stranger,
so it can only name a draft and weights directly in its own folder, and no link is followed.
"""

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import FolderError

from . import OLD_DRAFT, lock, remove_abandoned, sync, sync_tree, unlock, write

MARKER = ".unfinished-save"
TRAINING = ".training"  # the state of a training whose model will be in this folder
ASIDE = ".aside"  # in the draft: the old files, until the new ones are in place
DRAFT = re.compile(rf"{re.escape(OLD_DRAFT)}[A-Za-z0-9_]+")
# old weights and their loader go even if the new model has no file of that name, such as shards of
# another size; not what else a user may call model-something.safetensors
WEIGHTS = re.compile(r"model(-\d+(-of-\d+)?)?\.safetensors(\.index\.json)?|load_pruned\.(py|json)")
LARGEST = 1_000_000  # bytes of a marker


class Marker(NamedTuple):
    draft: str
    remove: list[str]  # old weights that the new model has no file of the same name for


@contextmanager
def draft_in(target: Path) -> Iterator[Path]:
    """A folder for the new files, deleted at the end unless an interrupted swap still needs it."""
    finish_save(target)
    is_new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            remove_abandoned(target / MARKER)
            _remove_abandoned(target)
            draft = Path(tempfile.mkdtemp(prefix=OLD_DRAFT, dir=target))
            handle = lock(draft)
    except OSError as problem:
        hint = "name a folder you may write to"
        raise FolderError(f"{target} cannot be written: {problem.strerror}.", hint) from problem
    try:
        yield draft
    finally:
        unlock(handle)
        if not os.path.lexists(target / MARKER) or _read_marker(target).draft != draft.name:
            shutil.rmtree(draft, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # not empty: the new files are in place
                target.rmdir()


def swap(draft: Path, target: Path) -> None:
    """Replace the files in the folder by those of the draft, or put the old ones back on an error.

    Other files in the folder stay. Raises OSError.
    """
    folders, files = content(draft)
    os.umask(umask := os.umask(0))  # there is no other way to read it
    for file in files:  # safetensors makes weights readable by their owner alone
        (draft / file).chmod(0o666 & ~umask)
    with _locked(target):
        _finish(target)  # the swap of another writer
        _check_places(folders, files, target)
        sync_tree(draft)
        new_folders = [folder for folder in folders if not (target / folder).exists()]
        weights = {name for name in os.listdir(target) if WEIGHTS.fullmatch(name)}
        old = {name for name in weights if not _is_folder(target / name)} - set(map(str, files))
        marker = Marker(draft.name, sorted(old))
        write(target / MARKER, json.dumps(marker._asdict()))
        try:
            _move_all([*files, *map(Path, marker.remove)], target, draft / ASIDE)
            _roll_forward(target, marker)
        except OSError:
            _put_back(files, new_folders, draft, target)
            raise
        _clean(target, marker)


def finish_save(folder: Path) -> None:
    """Complete an interrupted swap, if there is one. Waits while another process swaps."""
    if not os.path.lexists(folder / MARKER):
        return
    try:
        with _locked(folder):
            _finish(folder)
    except OSError as problem:
        raise FolderError(
            f"an interrupted save into {folder} cannot be completed: "
            f"{problem.strerror or problem}.",
            "make the folder writable, or copy it with its hidden files and load the copy",
        ) from problem


def _finish(folder: Path) -> None:
    if os.path.lexists(folder / MARKER):
        marker = _read_marker(folder)
        if _is_folder(folder / marker.draft):  # otherwise only the marker was left to delete
            _roll_forward(folder, marker)
        _clean(folder, marker)


def _roll_forward(folder: Path, marker: Marker) -> None:
    """Move what is left in the draft and delete old weights. Repeating it changes nothing."""
    draft = folder / marker.draft
    folders, files = content(draft)
    _check_places(folders, files, folder)
    for inside in folders:
        (folder / inside).mkdir(exist_ok=True)
    _move_all(files, draft, folder)
    for name in marker.remove:
        if not _is_folder(folder / name):
            (folder / name).unlink(missing_ok=True)
    for inside in [*folders, Path()]:
        sync(folder / inside)


def _clean(folder: Path, marker: Marker) -> None:
    """Delete the draft, which holds only old files now, and then the marker."""
    if _is_folder(folder / marker.draft):  # the next save deletes what this one cannot
        shutil.rmtree(folder / marker.draft, ignore_errors=True)
    (folder / MARKER).unlink()
    sync(folder)


def _put_back(files: list[Path], new_folders: list[Path], draft: Path, target: Path) -> None:
    """Undo a swap. If that fails too, the marker stays, and `finish_save` completes the swap."""
    _move_all([file for file in files if not os.path.lexists(draft / file)], target, draft)
    _move_all(content(draft / ASIDE)[1], draft / ASIDE, target)
    for folder in reversed(new_folders):
        with suppress(OSError):
            (target / folder).rmdir()
    sync(target)
    (target / MARKER).unlink()


def _move_all(files: list[Path], start: Path, end: Path) -> None:
    for file in files:
        if os.path.lexists(start / file):
            (end / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(start / file, end / file)


def content(folder: Path) -> tuple[list[Path], list[Path]]:
    """Folders and files of a folder, relative to it, outer folders first. Links count as files."""
    folders: list[Path] = []
    files: list[Path] = []
    for parent, below, names in os.walk(folder):
        inside = Path(parent).relative_to(folder)
        if inside == Path():
            below[:] = [name for name in below if name != ASIDE]
        for name in sorted(below):
            (files if (Path(parent) / name).is_symlink() else folders).append(inside / name)
        files += [inside / name for name in sorted(names)]
    return folders, files


def _check_places(folders: list[Path], files: list[Path], target: Path) -> None:
    """Refuse to replace a folder by a file, or to follow a link out of the model's folder."""
    hint = "move it away, and save or load again"
    for place in (target / folder for folder in folders):
        if os.path.lexists(place) and not _is_folder(place):
            raise FolderError(f"{place}: expected a folder, got a link or a file.", hint)
    for place in (target / file for file in files):
        if _is_folder(place):
            raise FolderError(f"{place}: expected a file, got a folder.", hint)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_marker(folder: Path) -> Marker:
    path = folder / MARKER
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("expected a small file")
        stored = json.loads(path.read_text(encoding="utf-8"))
        draft, remove = stored["draft"], stored["remove"]
        if not DRAFT.fullmatch(draft):
            raise ValueError(f"got the draft {draft!r}")
        if foreign := [name for name in remove if not WEIGHTS.fullmatch(name)]:
            raise ValueError(f"got {foreign[0]!r} among the files to remove")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        hint = "do not use a folder of somebody else; in your own, delete that file and save again"
        raise FolderError(f"{path} was not written by deadhead: {problem}.", hint) from None
    return Marker(draft, list(remove))


def _remove_abandoned(target: Path) -> None:
    """Delete drafts whose writer was killed before its swap began: nobody locks them."""
    for entry in list(os.scandir(target)):
        if DRAFT.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            handle = lock(Path(entry.path))
            if handle is not None:
                unlock(handle)
                shutil.rmtree(entry.path, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for other writers. Where the file system has no locks, nobody waits."""
    handle = lock(folder, wait=True)
    try:
        yield
    finally:
        unlock(handle)
