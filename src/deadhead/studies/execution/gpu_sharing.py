"""Several trials on one GPU at the same time, by NVIDIA's MPS.

Processes that share a GPU take turns on it unless MPS stands between them. A short training fills a large
GPU badly, so that costs much: on an H200 three trainings of BERT-base at batch 32 together made 6,433
examples a second with MPS, where one alone made 5,259 and two without MPS 4,932.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMON = "nvidia-cuda-mps-control"
ALONE = "each alone"
PLACES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@contextmanager
def sharing(workers: int, cards: int) -> Iterator[str]:
    """Let so many workers run on so many GPUs at the same time; says how they share.

    A daemon that listens already is left as it is; one started here ends with the last study that uses it.
    """
    if not 0 < cards < workers:
        yield ALONE
        return
    if PLACES[0] in os.environ or _say("get_server_list"):
        yield "with the MPS that runs already"
        return
    home = Path(tempfile.gettempdir()) / f"deadhead-mps-{os.getuid()}"
    with _used(home) as users:
        if users is None or not _start(home):
            yield "in turns, without MPS"
            return
        os.environ.update(dict.fromkeys(PLACES, str(home)))  # for the workers
        try:
            yield "with MPS"
        finally:
            if _last(users):  # a daemon that was told to quit takes no new workers of another study
                _say("quit", home)
            for place in PLACES:
                os.environ.pop(place, None)


@contextmanager
def _used(home: Path) -> Iterator[int | None]:
    """Hold a share of the file that tells how many studies use the daemon; None where there can be none."""
    if shutil.which(DAEMON) is None:
        yield None
        return
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        ours = not home.is_symlink() and home.stat().st_uid == os.getuid()
        users = (
            os.open(home / "users", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600) if ours else None
        )
    except OSError:
        users = None
    if users is None:
        yield None
        return
    try:
        fcntl.flock(users, fcntl.LOCK_SH)  # waits while the last of the others has it end
        yield users
    finally:
        os.close(users)


def _last(users: int) -> bool:
    """Whether no other study uses the daemon; the share is given up either way."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _start(home: Path) -> bool:
    """Start the daemon, unless that of another study, or one that a killed run left behind, listens."""
    # the last question is for whoever was a moment faster: of two studies that begin at once, one starts it for both
    return _say("get_server_list", home) or _call(["-d"], home) or _say("get_server_list", home)


def _say(word: str, home: Path | None = None) -> bool:
    """Tell the daemon that listens there a word, or without a place that of the whole machine; False if none does."""
    return _call([], home, word + "\n")


def _call(arguments: list[str], home: Path | None, told: str = "") -> bool:
    environ = {**os.environ, **({} if home is None else dict.fromkeys(PLACES, str(home)))}
    try:
        nowhere = subprocess.DEVNULL  # a pipe would be waited on for as long as the daemon lives
        done = subprocess.run(
            [DAEMON, *arguments],
            input=told.encode(),
            env=environ,
            stdout=nowhere,
            stderr=nowhere,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
