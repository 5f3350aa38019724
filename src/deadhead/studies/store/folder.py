"""The folder of a study: its files, its lock, and how files are written.

    STUDY/study.json        the recipe and its cells
    STUDY/records/ID.json   one finished trial each
    STUDY/shared/KEY/       work that trials share, by the hash of what shaped it
    STUDY/predictions/ID/   the predictions of a trial on each test set
    STUDY/training/         states of running trainings, to resume from after a kill
    STUDY/damaged/          damaged records and shared work, which were repeated
    STUDY/logs/             what the workers printed
    STUDY/live.json         what the run is doing now
    STUDY/stop              a request to stop
    STUDY/lock              locked by the run that works here

Every file is written to a draft, synced and renamed (`deadhead.files`), so it is whole or absent
after a kill. What a power cut, a disk or another program damages nevertheless is repeated. No
link is followed: a study folder from somebody else cannot make deadhead read or write outside of
it.
"""

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
PARTS = ["records", "shared", "training", "predictions", "logs", "damaged"]
PARTS += ["study.json", "live.json", "lock", "stop"]
LINK = "is a link, and no link is followed in a study folder."


class StudyError(DeadheadError):
    """A study folder that cannot be used: locked, full, read-only, damaged, of another recipe."""


class DiskFull(StudyError):
    """No space for a file of the study."""


class GpuLost(StudyError):
    """The GPU does not answer this process any more; as far as we know, no trial caused that."""


class ClusterLost(StudyError):
    """The Ray cluster is gone; no trial caused that."""


class StudyTaken(StudyError):
    """Another run works on the study."""


def write(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file, whole or not at all; without `durable` a power cut may still undo it."""
    try:
        files.write(path, text, durable=durable)
    except OSError as problem:
        raise refused(path, problem) from problem


def read(path: Path) -> str:
    """The text of a file of the study; a link is not followed."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as file:
        return file.read(MOST).decode("utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none that can be read."""
    try:
        stored = json.loads(read(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def put(path: Path, write: Callable[[Path], Any], option: str = "--out") -> None:
    """Write a file made from a study, whole or not at all; a link is replaced, a device written to.

    option: the option of the command line that named the file.
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
            "free some space and repeat the command; it resumes where it stopped",
        )
    if problem.errno in BARRED:
        return StudyError(
            f"{path} cannot be written ({problem.strerror}). Nothing was changed.",
            f"name a folder you may write to with {option}",
        )
    hint = f"name another folder with {option}"
    return StudyError(f"{path} could not be written: {problem.strerror or problem}.", hint)


def prepare(folder: Path) -> Path:
    """Create the folder of a study, or check that it can be written to."""
    if (folder / "config.json").is_file() and not (folder / "study.json").exists():
        raise StudyError(f"{folder} has a saved model.", "name another folder with --out")
    for part in (folder, folder / "records", folder / "shared"):
        try:
            part.mkdir(parents=part == folder, exist_ok=True)
        except FileExistsError:
            message = f"expected a folder, got the file {part}."
            raise StudyError(message, "name a folder with --out") from None
        except OSError as problem:
            raise refused(part, problem) from problem
    inside(folder)
    return folder


def inside(folder: Path) -> Path:
    """The folder, checked: it exists, and none of its parts is a link."""
    if not folder.is_dir():
        hint = "name the folder that `deadhead run` was given with --out"
        raise StudyError(f"there is no study at {folder}.", hint)
    for name in PARTS:
        if (folder / name).is_symlink():
            raise StudyError(f"{folder / name} {LINK}", "put the file itself there")
    return folder


def refuse_links(folder: Path) -> None:
    """Refuse a folder within a study that is a link or contains one."""
    if folder.is_symlink():
        raise StudyError(f"{folder} {LINK}", "delete it")
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if os.path.islink(path := os.path.join(at, name)):
                raise StudyError(f"{path} {LINK}", f"delete {folder}")


def no_room(problem: BaseException | None) -> bool:
    """Whether an error or its cause is a full disk; some libraries raise no OSError for it."""
    text = os.strerror(errno.ENOSPC)
    while problem is not None:
        if (isinstance(problem, OSError) and problem.errno in FULL) or text in str(problem):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def set_aside(path: Path, damaged: Path) -> Path | None:
    """Move a file or folder to the damaged ones: its new path, or None if it is gone."""
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
    """Delete drafts of a killed run. Only for the process that has the lock."""
    for place in (folder, folder / "records", folder / "shared"):
        files.remove_drafts(place)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the study for one run; the system unlocks it when the process ends, however it ends."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as problem:
        raise refused(folder / "lock", problem) from problem
    try:
        if not _take(handle):
            who = os.read(handle, 200).decode("utf-8", "replace").strip() or "another process"
            hint = (
                f"watch it with: deadhead status {folder} --watch, or stop it with: deadhead stop"
            )
            message = f"{folder} is being worked on by {who}. Nothing was started."
            raise StudyTaken(message, f"{hint} {folder}")
        with suppress(OSError):  # a full disk is reported later, by the study itself
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    """Lock a file; retry for a moment, since `is_running` locks it for an instant."""
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
    """Whether a run has locked the study now."""
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
