"""Time functions in turns, so that a busy machine slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

WARM_UP = 2  # rounds


def in_turns(
    calls: Sequence[Callable[[], Any]], device: torch.device, rounds: int, *, repeats: int = 1
) -> list[list[float]]:
    """The seconds that each function takes in each round; `repeats` calls in a row are one time."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + WARM_UP):
        for call, seconds in zip(calls, times, strict=True):
            wait_for(device)
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            wait_for(device)
            if turn >= WARM_UP:
                seconds.append((time.perf_counter() - start) / repeats)
    return times


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
