"""Watch the losses of a training, and detect when it diverges."""

from __future__ import annotations

import math
from collections import deque

WINDOW = 100  # updates over which a loss is averaged before it counts as diverging


class Watch:
    """The losses of a training so far. `classes` gives the loss of random guesses."""

    def __init__(self, classes: int, window: int):
        self.guess = math.log(max(2, classes))
        self.window = window
        self.every: list[float] = []
        self.recent: deque[float] = deque(maxlen=window)
        self.limit = math.inf

    def all(self, losses: list[float]) -> None:
        for loss in losses:
            self.add(loss)

    def add(self, loss: float) -> str | None:
        """Add the loss of an update; returns a reason to stop, if there is one."""
        self.every.append(loss)
        self.recent.append(loss)
        if not math.isfinite(loss):
            return f"the loss or its gradient is {loss}"
        if len(self.every) == 1:  # before any update
            self.limit = max(3 * loss, self.guess)
        mean = sum(self.recent) / len(self.recent)
        if len(self.recent) < self.window or mean <= self.limit:
            return None
        return (
            f"the loss diverges: {mean:.3g} on average, over three times that of the start "
            f"and worse than guessing ({self.guess:.3g}),"
        )
