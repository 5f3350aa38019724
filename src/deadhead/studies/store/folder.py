"""The folder of a study: who may work in it, and how files come into it.

    STUDY/study.json        the recipe and its cells
    STUDY/records/ID.json   one finished trial each
    STUDY/index.jsonl       a line per record, so that many are read quickly; made again when it does not fit
    STUDY/shared/KEY/       work that several trials share, by the hash of what shaped it
    STUDY/predictions/ID/   what the model of a trial said of each test set
    STUDY/training/         states of trainings under way, to go on from after a kill
    STUDY/damaged/          records and shared work that were found damaged, and were made again
    STUDY/logs/             what the workers printed
    STUDY/live.json         what the run is doing now
    STUDY/stop              asks it to stop
    STUDY/reserve           room for the records of trials that are running when the disk runs full
    STUDY/lock              held by the one run that works here

Every file is written beside, synced and renamed (`deadhead.files`), so it is whole or absent, whoever is
killed. What a power cut, a disk or another program cut short all the same is done again. No link is
followed: a study folder from somebody else cannot make deadhead read or write outside of it.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deadhead import files
from deadhead.errors import DeadheadError

FULL = (errno.ENOSPC, errno.EDQUOT)
BARRED = (errno.EROFS, errno.EACCES, errno.EPERM)
MOST = 64 * 1024 * 1024  # bytes of one file; a record is some kilobytes
TRIES = 25
RESERVE = 256 * 1024  # bytes


class StudyError(DeadheadError):
    """A study folder that cannot be used as asked: taken, full, read-only, of another recipe, damaged."""


class DiskFull(StudyError):
    """No room for a file of the study."""


class GpuLost(StudyError):
    """The GPU does not answer this process any more, and will not: no trial's fault, as far as one can tell."""


class ClusterLost(StudyError):
    """The Ray cluster is gone: no trial's fault."""


class StudyTaken(StudyError):
    """Another run works on the study."""


def write(path: Path, text: str, *, durable: bool = True) -> None:
    """Put a file in its place, whole or not at all; without `durable` a power cut may still take it back."""
    try:
        files.write(path, text, durable=durable)
    except OSError as problem:
        raise refused(path, problem) from problem


def read(path: Path) -> str:
    """The text of a file of the study; a link is not followed."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as file:
        return file.read(MOST).decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or None where there is none that can be read."""
    try:
        return json_or_none(read(path))
    except (OSError, ValueError):
        return None


def json_or_none(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def put(path: Path, write: Callable[[Path], Any], option: str = "--out") -> None:
    """Put a file that is made from a study in its place, whole or not at all; a link is replaced, a device written to.

    option: with which the user named it.
    """
    try:
        files.put(path, write)
    except OSError as problem:
        raise refused(path, problem, option) from problem


def refused(path: Path, problem: OSError, option: str = "--out") -> StudyError:
    """What a failed write means to the user."""
    if problem.errno in FULL:
        return DiskFull(
            f"the disk is full: {path} could not be written. What was finished before is kept.",
            "free some space and give the same command again; it goes on where it stopped",
        )
    if problem.errno in BARRED:
        return StudyError(
            f"{path} cannot be written ({problem.strerror}). Nothing was changed.",
            f"name a folder you may write to with {option}",
        )
    return StudyError(
        f"{path} could not be written: {problem.strerror or problem}.",
        f"name another folder with {option}",
    )


def prepare(folder: Path) -> Path:
    """Make the folder of a study ready to be written to."""
    for part in (folder, folder / "records", folder / "shared"):
        try:
            part.mkdir(parents=part == folder, exist_ok=True)
        except FileExistsError:
            raise StudyError(f"{part} is a file.", "name a folder with --out") from None
        except OSError as problem:
            raise refused(part, problem) from problem
    inside(folder)
    with suppress(OSError):
        reserve = folder / "reserve"
        if not reserve.exists() or reserve.stat().st_size < RESERVE:
            reserve.write_bytes(os.urandom(RESERVE))  # noise, so that no file system packs it
    return folder


def spend_reserve(folder: Path) -> bool:
    """Give up the room kept for the last records; False if that has happened before."""
    try:
        (folder / "reserve").unlink()
    except OSError:
        return False
    return True


def inside(folder: Path) -> Path:
    """The folder, once it is sure that its parts do not lead out of it."""
    if not folder.is_dir():
        raise StudyError(
            f"there is no study at {folder}.",
            "name the folder that `deadhead run` was given with --out",
        )
    for name in (
        "records",
        "shared",
        "study.json",
        "index.jsonl",
        "live.json",
        "lock",
        "stop",
        "reserve",
        "training",
        "predictions",
        "logs",
        "damaged",
    ):
        if (folder / name).is_symlink():
            raise StudyError(
                f"{folder / name} is a link, and no link is followed in a study folder.",
                "put the file itself there",
            )
    return folder


def refuse_links(folder: Path) -> None:
    """Refuse a folder within a study that is a link or holds one."""
    if folder.is_symlink():
        raise StudyError(
            f"{folder} is a link, and no link is followed in a study folder.", "delete it"
        )
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if os.path.islink(os.path.join(at, name)):
                raise StudyError(
                    f"{os.path.join(at, name)} is a link, and no link is followed in a study folder.",
                    f"delete {folder}",
                )


def no_room(problem: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that the disk is full; not every library says so with an OSError."""
    while problem is not None:
        if (isinstance(problem, OSError) and problem.errno in FULL) or os.strerror(
            errno.ENOSPC
        ) in str(problem):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def set_aside(path: Path, damaged: Path) -> Path | None:
    """Move a file or folder among the damaged ones; where it is now, or None if another process has moved it."""
    try:
        damaged.mkdir(exist_ok=True)
        target = damaged / path.name
        number = 1
        while target.exists():
            number += 1
            target = damaged / f"{path.stem}-{number}{path.suffix}"
        with suppress(FileNotFoundError):
            os.rename(path, target)
            return target
    except OSError as problem:
        raise refused(damaged, problem) from problem
    return None


def sweep(folder: Path) -> None:
    """Throw away drafts that a killed run left behind. Only for the one who holds the lock."""
    for place in (folder, folder / "records", folder / "shared"):
        files.remove_drafts(place)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the study for one run; the system lets go of it when the process ends, however it ends."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as problem:
        raise refused(folder / "lock", problem) from problem
    try:
        if not _take(handle):
            who = os.read(handle, 200).decode("utf-8", "replace").strip() or "another process"
            raise StudyTaken(
                f"{folder} is being worked on by {who}. Nothing was started.",
                f"watch it with: deadhead status {folder} --watch, or stop it with: deadhead stop {folder}",
            )
        with suppress(OSError):  # a full disk must not keep a study from telling so itself
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    """Lock a file; tried for a moment, since whoever asks `is_running` holds it for an instant."""
    import fcntl

    for _ in range(TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


def is_running(folder: Path) -> bool:
    """Whether a run holds the study now."""
    import fcntl

    try:
        handle = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
