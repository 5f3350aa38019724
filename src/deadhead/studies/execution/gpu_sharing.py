"""Several trials on one GPU at the same time, with NVIDIA's MPS.

Processes that share a GPU take turns on it unless MPS runs between them. A short training does not
fill a large GPU, so taking turns is slow: on an H200 three trainings of BERT-base at batch 32
processed 6,433 examples a second together with MPS, where one alone processed 5,259 and two
without MPS 4,932.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DAEMON = "nvidia-cuda-mps-control"
ALONE = "each alone"
PLACES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@contextmanager
def sharing(workers: int, cards: int) -> Iterator[str]:
    """Let this number of workers run on this number of GPUs; yields how they share them.

    A running daemon is used as it is; one started here ends with the last study that uses it.
    """
    if not 0 < cards < workers:
        yield ALONE
        return
    if PLACES[0] in os.environ or _send("get_server_list"):
        yield "with the MPS that runs already"
        return
    folder = Path(tempfile.gettempdir()) / f"deadhead-mps-{os.getuid()}"
    with _counted_user(folder) as users:
        if users is None or not _start(folder):
            yield "in turns, without MPS"
            return
        os.environ.update(dict.fromkeys(PLACES, str(folder)))  # for the workers
        try:
            yield "with MPS"
        finally:
            with suppress(OSError):  # then another study uses the daemon, which must not quit
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _send("quit", folder)
            for place in PLACES:
                os.environ.pop(place, None)


@contextmanager
def _counted_user(folder: Path) -> Iterator[int | None]:
    """A shared lock on the file that counts the studies on the daemon; None without MPS."""
    users = None if shutil.which(DAEMON) is None else _users_file(folder)
    if users is None:
        yield None
        return
    try:
        fcntl.flock(users, fcntl.LOCK_SH)  # waits while the last of the others ends the daemon
        yield users
    finally:
        os.close(users)


def _users_file(folder: Path) -> int | None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return None
        return os.open(folder / "users", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _start(folder: Path) -> bool:
    """Start the daemon, unless one of another study or of a killed run is there."""
    # asked again at the end: of two studies that begin at once, one starts it for both
    listens = _send("get_server_list", folder)
    return listens or _call(["-d"], folder) or _send("get_server_list", folder)


def _send(word: str, folder: Path | None = None) -> bool:
    """Send a word to the daemon of this folder, or to that of the machine; False without one."""
    return _call([], folder, word + "\n")


def _call(arguments: list[str], folder: Path | None, text: str = "") -> bool:
    places = {} if folder is None else dict.fromkeys(PLACES, str(folder))
    try:
        done = subprocess.run(
            [DAEMON, *arguments],
            input=text.encode(),
            env={**os.environ, **places},
            stdout=subprocess.DEVNULL,  # a pipe would stay open as long as the daemon runs
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
