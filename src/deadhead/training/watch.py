"""Looks at every loss, and says when a training is lost."""

from __future__ import annotations

import math
from collections import deque

WINDOW = 100  # updates over which a loss is averaged before it counts as diverging


class Watch:
    """The losses of a training so far. `classes` tells what guessing at random would cost."""

    def __init__(self, classes: int, window: int):
        self.guess, self.window = math.log(max(2, classes)), window
        self.every: list[float] = []
        self.recent: deque[float] = deque(maxlen=window)
        self.limit = math.inf

    def all(self, losses: list[float]) -> None:
        for loss in losses:
            self.add(loss)

    def add(self, loss: float) -> str | None:
        self.every.append(loss)
        self.recent.append(loss)
        if not math.isfinite(loss):
            return f"the loss or its gradient is {loss}"
        if len(self.every) == 1:  # before any update
            self.limit = max(3 * loss, self.guess)
        mean = sum(self.recent) / len(self.recent)
        if len(self.recent) < self.window or mean <= self.limit:
            return None
        return f"the loss diverges: {mean:.3g} on average, over three times that of the start and worse than guessing ({self.guess:.3g}),"
