"""What decides the last digits of a number on one machine: threads, kernels and precision. Their one owner.

The last digits of a sum depend on how many threads add it up and on which kernels do, and a training
carries them on. So they must not follow from how many workers there are, nor from what the process
computed before: `fixed` sets all of it for a trial as in a fresh process, says what belongs on record,
and restores what was set before. The number of threads is 1, or what DEADHEAD_THREADS says; cores are
filled with more workers instead. The number of inter-op threads changes no sum.

torch itself changes one of these settings on the way: on a CPU that cannot multiply matrices of
bfloat16 or float16 with oneDNN (an ARM CPU without bf16), the first such product switches oneDNN off
for the whole process, and later float32 results differ. `onednn` keeps that from happening: there,
half precision is computed without oneDNN from its first product on, and all else with it.

Loads no torch until it is asked to.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from deadhead.errors import DeadheadError

THREADS = "DEADHEAD_THREADS"
MOST = 1024
SIDE = 128  # of the matrices that try half precision: torch hands smaller ones to other kernels
TINY = 1e-40  # a denormal number of float32


class KernelsSwitched(DeadheadError):
    """oneDNN was switched off in the middle of a computation, so two sets of kernels computed it."""


def threads() -> int:
    """The threads of one trial."""
    text = os.environ.get(THREADS) or "1"
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise DeadheadError(
            f"{THREADS}={text}: this is not a number of threads.",
            f"give a whole number, such as {THREADS}=2",
        )
    return int(text)


@contextmanager
def fixed() -> Iterator[dict[str, str]]:
    """Compute as a fresh process with `threads()` threads would; gives what to put on record.

    On a GPU neither threads nor the CPU's kernels change a number, so there is nothing of them to record.
    """
    import torch

    on_cpu = not torch.cuda.is_available()
    with ExitStack() as stack:
        if on_cpu:
            stack.enter_context(_held(torch.get_num_threads, torch.set_num_threads, threads()))
        stack.enter_context(_held(torch.get_default_dtype, torch.set_default_dtype, torch.float32))
        stack.enter_context(_held(_deterministic, _set_deterministic, (False, False)))
        stack.enter_context(_held(_flushes, torch.set_flush_denormal, False))
        for backend in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul):  # type: ignore[attr-defined]
            stack.enter_context(_held_attribute(backend, "fp32_precision", "ieee"))
        for device in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(device, enabled=False))
        on = stack.enter_context(onednn())
        yield {"threads": str(torch.get_num_threads()), "kernels": kernels()} if on_cpu else {}
        if on_cpu and on != torch.backends.mkldnn.enabled:
            raise KernelsSwitched(
                "oneDNN was switched off on the way, so two sets of kernels computed this.",
                "compute in float32: torch switches oneDNN off where this CPU cannot compute half precision with it",
            )


@contextmanager
def onednn(half: bool = False) -> Iterator[bool]:
    """Compute with oneDNN, but `half` precision without it where it would be switched off on the way; gives which.

    Whatever was set before, or is switched in between, is restored.
    """
    import torch

    on = torch.backends.mkldnn.is_available() and not (half and not computes_half())
    with _held_attribute(torch.backends.mkldnn, "enabled", on):
        yield on


@contextmanager
def onednn_left_alone() -> Iterator[None]:
    """Compute with whatever is set, and leave it set: torch may switch oneDNN off in between."""
    import torch

    with _held_attribute(torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled):
        yield


@cache
def computes_half() -> bool:
    """Whether products of half precision leave oneDNN switched on, on this CPU: a small one of each kind is tried."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return True
    with (
        _held_attribute(torch.backends.mkldnn, "enabled", True),
        warnings.catch_warnings(),
        torch.no_grad(),
    ):
        warnings.simplefilter(
            "ignore"
        )  # torch warns when it switches oneDNN off; that is what is looked for
        for dtype in (torch.bfloat16, torch.float16):
            square = torch.ones(SIDE, SIDE, dtype=dtype)
            for given in (square, square[None].expand(2, -1, -1)):
                torch.nn.functional.linear(given, square, square[0])
                torch.nn.functional.linear(given, square)
            torch.mm(square.t(), square)  # as in the backward pass
            torch.bmm(square[None], square[None])
            torch.mv(square, square[0])
        return bool(torch.backends.mkldnn.enabled)


def is_half(model: Any) -> bool:
    """Whether the CPU computes this model in half precision, by the type of its weights or under autocast."""
    import torch

    if torch.is_autocast_enabled("cpu"):
        return True
    return any(
        p.dtype in (torch.bfloat16, torch.float16) and p.device.type == "cpu"
        for p in model.parameters()
    )


def kernels() -> str:
    """The kernels that compute on the CPU now, for a record."""
    import torch

    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{instructions} {'with' if torch.backends.mkldnn.enabled else 'without'} oneDNN"


@contextmanager
def _held(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def _held_attribute(place: Any, name: str, value: Any) -> Any:
    return _held(lambda: getattr(place, name), lambda wanted: setattr(place, name, wanted), value)


def _deterministic() -> tuple[bool, bool]:
    import torch

    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _set_deterministic(wanted: tuple[bool, bool]) -> None:
    import torch

    torch.use_deterministic_algorithms(wanted[0], warn_only=wanted[1])


def _flushes() -> bool:
    """Whether this thread takes denormal numbers as 0; torch sets that and does not say it."""
    import torch

    return float(torch.tensor(TINY, dtype=torch.float32) * 1) == 0.0
