"""One live line for a training in a terminal: epoch, update, loss, speed, time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deadhead.display.progress import EVERY, clock, live_line


@dataclass(frozen=True, kw_only=True)
class Tick:
    """The progress of a training."""

    epoch: int
    epochs: int
    update: int  # within this epoch
    updates: int
    loss: float | None  # a moving mean; with CUDA graphs, the mean of the last epoch
    speed: float  # examples per second
    left: float  # seconds

    def __str__(self) -> str:
        loss = "" if self.loss is None else f"  loss {self.loss:.4f}"
        return (
            f"epoch {self.epoch}/{self.epochs}  update {self.update}/{self.updates}{loss}  "
            f"{self.speed:,.0f} examples/s  {clock(self.left)} left"
        )


Show = bool | Callable[[Tick], None]


class Progress:
    """Calls `show` after every update, or updates a live line."""

    def __init__(self, show: Show, epochs: int, updates: int, examples: int, name: str = ""):
        self.epochs, self.updates, self.examples, self.name = epochs, updates, examples, name
        self.call = show if callable(show) else None
        self.line: Any = live_line() if show is True else None
        self.place = (0, 0)  # the epoch, and the update in it
        self.begin = self.changed = time.perf_counter()
        self.done = 0  # updates in this run
        self.loss: float | None = None

    def __call__(self, epoch: int, update: int, loss: float | None) -> None:
        self.done += 1
        if loss is not None:
            self.loss = loss if self.loss is None else 0.95 * self.loss + 0.05 * loss
        self.place = epoch, update
        if self.call is not None:
            self.call(self._tick())
        elif self.line is not None and time.perf_counter() - self.changed >= EVERY:
            self._show()

    def _show(self) -> None:
        self.changed = time.perf_counter()
        self.line.update(f"{self.name}  {self._tick()}".strip())

    def _tick(self) -> Tick:
        epoch, update = self.place
        seconds = (time.perf_counter() - self.begin) / self.done
        return Tick(
            epoch=epoch,
            epochs=self.epochs,
            update=update,
            updates=self.updates,
            loss=self.loss,
            speed=self.examples / self.updates / seconds if seconds else 0.0,
            left=seconds * ((self.epochs - epoch) * self.updates + self.updates - update),
        )

    def __enter__(self) -> Progress:
        if self.line is not None:
            self.line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            if self.done:
                self._show()  # a notebook keeps the last state
            self.line.stop()
