"""Put a saved model in the place of another, so that a kill at any moment leaves one of the two, whole.

    with draft_in(folder) as draft:     an empty folder inside the model's folder, to write the new files to
        ...
        swap(draft, folder)             puts them in place
    finish(folder)                      completes a swap that was cut short; every reader of a model calls it first

A folder of several files cannot be replaced in one step. So the draft is written and synced first, and then a marker
file names it: from here on the new model counts. Whatever is killed after that, what is left in the draft still has to
move, and `finish` moves it. A marker may come from somebody else, so it names nothing but a draft and weights directly
in its own folder, and no link is followed.
"""

from __future__ import annotations

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
from deadhead.files import sync, sync_tree, write

try:
    import fcntl
except ImportError:  # Windows: two writers of one folder are not kept apart there
    fcntl = None  # type: ignore[assignment]

MARKER = ".unfinished-save"
ASIDE = ".aside"  # in the draft: the old files, until the new ones are in place
DRAFT = re.compile(r"\.draft-[A-Za-z0-9_]+")
OF_MARKER = re.compile(
    rf"\.{re.escape(MARKER)}\.[0-9a-f]+\.draft"
)  # as `files.write` calls what it has not finished
WEIGHTS = re.compile(
    r"model[^/\\\0]*\.safetensors[^/\\\0]*"
)  # shards of another size would stay behind
LARGEST = 1_000_000  # bytes of a marker


class Marker(NamedTuple):
    draft: str
    remove: list[str]  # old weights that the new model has no file of the same name for


@contextmanager
def draft_in(target: Path) -> Iterator[Path]:
    """A folder for the new files. It goes when the block ends, unless a swap that was cut short still needs it."""
    finish(target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            _remove_abandoned(target)
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target))
            handle = _hold(draft)
    except OSError as problem:
        raise FolderError(
            f"{target} cannot be written: {problem.strerror}.", "name a folder you may write to"
        ) from problem
    try:
        yield draft
    finally:
        _release(handle)
        if not os.path.lexists(target / MARKER) or _marker(target).draft != draft.name:
            shutil.rmtree(draft, ignore_errors=True)


def swap(draft: Path, target: Path) -> None:
    """Put the files of the draft in the place of those in the folder; if the system refuses, put the old ones back.

    Other files in the folder stay. Raises OSError.
    """
    folders, new = _content(draft)
    for file in new:
        (draft / file).chmod(0o666 & ~_umask())  # weights come out readable by their owner alone
    with _locked(target):
        _finish(target)  # that of another writer
        _check_places(folders, new, target)
        sync_tree(draft)
        made = [folder for folder in folders if not (target / folder).exists()]
        weights = {
            entry.name
            for entry in os.scandir(target)
            if WEIGHTS.fullmatch(entry.name) and not _is_folder(target / entry.name)
        }
        stale = sorted(weights - set(map(str, new)))
        marker = Marker(draft.name, stale)
        write(target / MARKER, json.dumps(marker._asdict()))
        try:
            _move_all([*new, *map(Path, stale)], target, draft / ASIDE)
            _roll_forward(target, marker)
        except OSError:
            _put_back(new, made, draft, target)
            raise
        _clean(target, marker)


def finish(folder: Path) -> None:
    """Complete a swap that was cut short, if there is one. While another process swaps, this waits."""
    if not os.path.lexists(folder / MARKER):
        return
    try:
        with _locked(folder):
            _finish(folder)
    except OSError as problem:
        raise FolderError(
            f"a save into {folder} was cut short, and it cannot be completed: {problem.strerror or problem}.",
            "make the folder writable, or copy it with its hidden files to where you may write, and load it from there",
        ) from problem


def _finish(folder: Path) -> None:
    if os.path.lexists(folder / MARKER):
        marker = _marker(folder)
        if _is_folder(folder / marker.draft):  # else all is in place, and only the marker was left
            _roll_forward(folder, marker)
        _clean(folder, marker)


def _roll_forward(folder: Path, marker: Marker) -> None:
    """Move what is left in the draft, remove what the new model does not have. Any number of times gives the same."""
    draft = folder / marker.draft
    folders, new = _content(draft)
    _check_places(folders, new, folder)
    for inside in folders:
        (folder / inside).mkdir(exist_ok=True)
    _move_all(new, draft, folder)
    for name in marker.remove:
        if not _is_folder(folder / name):
            (folder / name).unlink(missing_ok=True)
    for inside in [*folders, Path()]:
        sync(folder / inside)


def _clean(folder: Path, marker: Marker) -> None:
    """Delete the draft, which holds nothing but old files now, and then the marker."""
    if _is_folder(folder / marker.draft):
        shutil.rmtree(
            folder / marker.draft, ignore_errors=True
        )  # the next save removes what is left of it
    (folder / MARKER).unlink()
    sync(folder)


def _put_back(new: list[Path], made: list[Path], draft: Path, target: Path) -> None:
    """Undo what a swap has moved so far. If that is refused too, the marker stays, and `finish` completes the swap."""
    _move_all([file for file in new if not os.path.lexists(draft / file)], target, draft)
    _move_all(_content(draft / ASIDE)[1], draft / ASIDE, target)
    for folder in reversed(made):
        with suppress(OSError):
            (target / folder).rmdir()
    sync(target)
    (target / MARKER).unlink()


def _move_all(files: list[Path], start: Path, end: Path) -> None:
    for file in files:
        if os.path.lexists(start / file):
            (end / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(start / file, end / file)


def _content(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files in a draft, relative to it, outer folders first. Links are files here."""
    folders: list[Path] = []
    files: list[Path] = []
    for at, below, names in os.walk(folder):
        inside = Path(at).relative_to(folder)
        if inside == Path():
            below[:] = [name for name in below if name != ASIDE]
        for name in sorted(below):
            (files if (Path(at) / name).is_symlink() else folders).append(inside / name)
        files += [inside / name for name in sorted(names)]
    return folders, files


def _check_places(folders: list[Path], files: list[Path], target: Path) -> None:
    """Raise an error where a file would have to replace a folder, or would follow a link out of the model's folder."""
    for place in (target / folder for folder in folders):
        if os.path.lexists(place) and not _is_folder(place):
            raise FolderError(
                f"{place} is a link or a file; expected a folder.",
                "move it away, and save or load again",
            )
    for place in (target / file for file in files):
        if _is_folder(place):
            raise FolderError(
                f"{place} is a folder; expected a file.", "move it away, and save or load again"
            )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _marker(folder: Path) -> Marker:
    """What the marker in a folder names."""
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
        raise FolderError(
            f"{path} was not written by deadhead: {problem}.",
            "do not use this folder if it comes from somebody else; if it is yours, delete that file and save the model again",
        ) from None
    return Marker(draft, list(remove))


def _remove_abandoned(target: Path) -> None:
    """Delete drafts whose writer was killed before its swap began: nobody holds them."""
    for entry in list(os.scandir(target)):
        if DRAFT.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            handle = _hold(Path(entry.path))
            if handle is not None:
                _release(handle)
                shutil.rmtree(entry.path, ignore_errors=True)
        elif OF_MARKER.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)  # nobody writes one now: the folder is locked


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for other writers. Where the file system has no locks, nobody waits."""
    handle = _hold(folder, wait=True)
    try:
        yield
    finally:
        _release(handle)


def _hold(folder: Path, *, wait: bool = False) -> int | None:
    """Lock a folder; None if another process has it, or if there are no locks here."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _release(handle: int | None) -> None:
    if handle is not None:
        fcntl.flock(
            handle, fcntl.LOCK_UN
        )  # closing alone would not do, if a forked child still has it open
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
