"""The steps that cost nothing, a little slower, so that there is a midst to kill a node in."""

import json
import os
import signal
import time
from pathlib import Path

import trivial

SIGNALS = {3: signal.SIGKILL, 6: signal.SIGSTOP}  # the number of a trial in the order of starts


def work(trial, folder, keep, tell):
    time.sleep(0.2)
    return trivial.work(trial, folder, keep, tell)


def strikes_itself(trial, folder, keep, tell):
    """Two trials send their own process a signal, once the study has heard of them."""
    assert folder is not None
    record = writes_its_process(trial, folder, keep, tell)
    number = len(processes())
    if number in SIGNALS:
        while "quiet" not in _running(folder).get(trial.id, {}):
            time.sleep(0.02)
        os.kill(os.getpid(), SIGNALS[number])
    return record


def writes_its_process(trial, folder, keep, tell):
    with open(Path(os.environ["TRIVIAL_MARKS"]) / "processes", "a") as file:
        file.write(f"{os.getpid()}\n")
    return trivial.work(trial, folder, keep, tell)


def processes():
    """The process of each trial that began, in this order."""
    file = Path(os.environ["TRIVIAL_MARKS"]) / "processes"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _running(folder):
    running: dict[str, dict[str, object]] = json.loads((folder / "live.json").read_text())[
        "running"
    ]
    return running
