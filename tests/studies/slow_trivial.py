"""The steps that cost nothing, a little slower, so that there is a midst to kill a node in."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

import trivial

from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial


def work(
    trial: Trial, folder: Path | None, keep: Collection[str], tell: Callable[[str], None]
) -> Record:
    time.sleep(0.2)
    return trivial.work(trial, folder, keep, tell)
