"""CUDA graphs: an update of each shape is captured once, and then replayed with one call.

An update of a twelve-layer BERT is a thousand small kernels, and the host takes longer to start
them than the device to run them. Here everything an update reads is in buffers that stay in place:
the numbers of the windows of each batch of the epoch, the learning rates, and a counter that each
update increases by one. A replay needs no argument.

The first batch of a shape is run directly, which also warms up the libraries; the second one is
captured. Dropout draws from the same stream of random numbers either way.
"""

from collections.abc import Sequence

import numpy as np
import torch

from deadhead.tasks.encoding.feed import Shape

from .checkpoint import random_state, set_random_state
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
        self.seen: set[Shapes] = set()
        self.captured: dict[Shapes, torch.cuda.CUDAGraph] = {}

    def begin(self, plan: Sequence[np.ndarray], rates: np.ndarray) -> None:
        """Write the batches and rates of an epoch into the buffers."""
        self.plan[: len(plan)].copy_(torch.from_numpy(np.stack(plan)))
        self.rates[: len(rates)].copy_(torch.from_numpy(rates.astype(np.float32)))
        self.at.zero_()
        self.stream.wait_stream(torch.cuda.current_stream(self.plan.device))

    def __call__(self, shapes: Shapes) -> None:
        """Run the next update of the epoch."""
        with torch.cuda.stream(self.stream):
            if shapes not in self.seen:
                self._first(shapes)
                self.seen.add(shapes)
                return
            if shapes not in self.captured:
                self.captured[shapes] = self._capture(shapes)
            self.captured[shapes].replay()

    def end(self, updates: int) -> np.ndarray:
        """Wait for the device and return the losses of the epoch."""
        torch.cuda.current_stream(self.plan.device).wait_stream(self.stream)
        losses: np.ndarray = self.losses[:updates].cpu().numpy()
        return losses

    def _first(self, shapes: Shapes) -> None:
        before = random_state(self.plan.device)
        try:
            self._update(shapes)
        except RuntimeError:  # out of memory: this update is repeated, with the same random numbers
            set_random_state(before, self.plan.device)
            raise

    def _update(self, shapes: Shapes) -> None:
        numbers = self.plan.index_select(0, self.at)[0]
        rate = self.rates.index_select(0, self.at)[0]
        loss = self.updater(numbers, shapes, rate)
        self.losses.index_copy_(0, self.at, loss.reshape(1).float())
        self.at += 1

    def _capture(self, shapes: Shapes) -> torch.cuda.CUDAGraph:
        self.updater.forget()  # so that gradients are allocated in the memory of the graph
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            self._update(shapes)
        return graph
