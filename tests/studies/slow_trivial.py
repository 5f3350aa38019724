"""The steps that cost nothing, a little slower, so that there is a midst to kill a node in."""

import os
import signal
import time
from pathlib import Path

import trivial


def work(trial, folder, keep, tell):
    time.sleep(0.2)
    return trivial.work(trial, folder, keep, tell)


def strikes_itself(trial, folder, keep, tell):
    """The third trial kills its own process, the first time."""
    with open(Path(os.environ["TRIVIAL_MARKS"]) / "trials", "a") as file:
        file.write("x")
        if file.tell() == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return trivial.work(trial, folder, keep, tell)
