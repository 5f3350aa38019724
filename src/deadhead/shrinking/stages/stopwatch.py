"""The seconds of each stage, and its progress on the screen."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from deadhead.display.progress import Progress
from deadhead.display.progress import stage as say_stage


class Stopwatch:
    """Times the stages of one call of `shrink`."""

    def __init__(self, show: Progress):
        self._show = show
        self.seconds: dict[str, float] = {}  # by stage; the only result that grows

    @contextmanager
    def stage(self, name: str) -> Iterator[Progress]:
        """Time a stage; give what to call as it proceeds."""
        begin = time.perf_counter()
        say_stage(f"shrink: {name}")

        def progress(done: int, total: int, note: str = "") -> None:
            self._show(done, total, f"{name} {note}".strip())

        yield progress
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
