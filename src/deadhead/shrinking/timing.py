"""Time functions in turns, so that a busy machine slows all of them."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

WARM_UP = 2  # rounds


def in_turns(
    calls: Sequence[Callable[[], Any]],
    device: torch.device,
    rounds: int,
    *,
    repeats: int = 1,
    warm_up: int = WARM_UP,
) -> list[list[float]]:
    """The seconds that each function takes in each round; `repeats` calls in a row are one time.

    warm_up: rounds before those, which do not count.

    On a CPU with one thread they are seconds of the processor, where other programs do not count.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    now = time.process_time if alone else time.perf_counter
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + warm_up):
        for call, seconds in zip(calls, times, strict=True):
            wait_for(device)
            start = now()
            for _ in range(repeats):
                call()
            wait_for(device)
            if turn >= warm_up:
                seconds.append((now() - start) / repeats)
    return times


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
