"""CUDA graphs: an update of each shape is captured once and from then on replayed with one call.

A BERT of twelve layers is a thousand small kernels an update, and starting them takes the host
far longer than the device needs to run them. Here everything an update reads stands in buffers that
stay in place: the numbers of the windows of each batch of the epoch, the learning rates, and a
counter that each update moves on by one. A replay needs no argument, so the host says nothing else.

The first batch of a shape is run as it is (which also warms up what capturing must not meet cold),
the second one captures. Dropout draws from the same stream of random numbers either way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .checkpoint import random_state, set_random_state
from .feed import Shape
from .update import Updater

Shapes = tuple[Shape, ...]


class Graphs:
    """The updates of an epoch on one CUDA device, captured by shape."""

    def __init__(self, updater: Updater, updates: int, rows: int):
        device = updater.feed.device
        self.updater = updater
        self.plan = torch.zeros((updates, rows), dtype=torch.long, device=device)
        self.rates = torch.zeros(updates, dtype=torch.float32, device=device)
        self.losses = torch.zeros(updates, dtype=torch.float32, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.met: set[Shapes] = set()
        self.captured: dict[Shapes, torch.cuda.CUDAGraph] = {}

    def begin(self, plan: Sequence[np.ndarray], rates: np.ndarray) -> None:
        """Lay out an epoch."""
        self.plan[: len(plan)].copy_(torch.from_numpy(np.stack(plan)))
        self.rates[: len(rates)].copy_(torch.from_numpy(rates.astype(np.float32)))
        self.at.zero_()
        self.stream.wait_stream(torch.cuda.current_stream(self.plan.device))

    def __call__(self, shapes: Shapes) -> None:
        """Run the next update of the epoch."""
        with torch.cuda.stream(self.stream):
            if shapes in self.captured:
                self.captured[shapes].replay()
            elif shapes in self.met:
                self.captured[shapes] = self._capture(shapes)
                self.captured[shapes].replay()
            else:
                self._first(shapes)
                self.met.add(shapes)

    def end(self, updates: int) -> np.ndarray:
        """Wait for the device; the losses of the epoch."""
        torch.cuda.current_stream(self.plan.device).wait_stream(self.stream)
        found: np.ndarray = self.losses[:updates].cpu().numpy()
        return found

    def _first(self, shapes: Shapes) -> None:
        before = random_state(self.plan.device)
        try:
            self._update(shapes)
        except RuntimeError:  # out of memory: this update is made anew, with the same numbers
            set_random_state(before, self.plan.device)
            raise

    def _update(self, shapes: Shapes) -> None:
        numbers = self.plan.index_select(0, self.at)[0]
        rate = self.rates.index_select(0, self.at)[0]
        loss = self.updater(numbers, shapes, rate)
        self.losses.index_copy_(0, self.at, loss.reshape(1).float())
        self.at += 1

    def _capture(self, shapes: Shapes) -> torch.cuda.CUDAGraph:
        self.updater.forget()  # gradients are then made in the memory of the graph
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            self._update(shapes)
        return graph
