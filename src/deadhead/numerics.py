"""The device and the settings that decide the last digits of a number: threads, kernels, precision.

The last digits of a sum depend on the number of threads that add it up and on the kernels, and a
training amplifies them. So they must depend neither on the number of workers nor on what the
process computed before: `fixed` sets all of it for a trial as in a fresh process, says what to
record, and restores the settings afterwards. The number of threads is 1, or DEADHEAD_THREADS; more
workers use the other cores. The number of inter-op threads changes no sum.

torch itself changes one of these settings: on a CPU that cannot multiply matrices of bfloat16 or
float16 with oneDNN (an ARM CPU without bf16), the first such product switches oneDNN off for the
whole process, and later float32 results differ. `onednn` prevents that: on such a CPU, half
precision is computed without oneDNN from the first product on, and everything else with it.

Imports torch only inside its functions.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

from deadhead.errors import DeadheadError, unknown_name

THREADS = "DEADHEAD_THREADS"
MOST = 1024
SIDE = 128  # rows of the matrices that test half precision; torch has other kernels for less
AMPERE = 8  # the first generation of NVIDIA's GPUs that has TF32
LOW_BITS = 13  # the last ones, which float32 has and TF32 has not
TINY = 1e-40  # a denormal number of float32
DEVICES = ("cpu", "cuda", "mps")


class KernelsSwitched(DeadheadError):
    """oneDNN was switched off during a computation, so two sets of kernels computed it."""


def threads() -> int:
    """The number of threads of a trial."""
    text = os.environ.get(THREADS) or "1"
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise DeadheadError(
            f"{THREADS} expects a whole number from 1 to {MOST}, got {THREADS}={text}.",
            f"set for instance {THREADS}=2",
        )
    return int(text)


def seed(number: int) -> None:
    """Seed torch on every device there is.

    torch.manual_seed also keeps a stack trace for each kind of device that is not there, which
    takes longer than a tiny model.
    """
    import torch

    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


@contextmanager
def fixed() -> Iterator[dict[str, str]]:
    """Compute as a fresh process with `threads()` threads would; gives what to record.

    On a GPU neither threads nor the CPU's kernels change a number, so there is nothing to record.
    """
    import torch

    on_cpu = not torch.cuda.is_available()
    with ExitStack() as stack:
        if on_cpu:
            stack.enter_context(_restored(torch.get_num_threads, torch.set_num_threads, threads()))
        dtypes = torch.get_default_dtype, torch.set_default_dtype
        stack.enter_context(_restored(*dtypes, torch.float32))
        modes = torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
        stack.enter_context(_restored(*modes, 0))
        stack.enter_context(_restored(_flushes_denormals, torch.set_flush_denormal, False))
        backends: Any = torch.backends
        for backend in (backends.mkldnn.matmul, backends.cuda.matmul):
            stack.enter_context(_restored_attribute(backend, "fp32_precision", "ieee"))
        stack.enter_context(without_autocast())
        on = stack.enter_context(onednn())
        kernels = f"{torch.backends.cpu.get_cpu_capability()} {'with' if on else 'without'} oneDNN"
        yield {"threads": str(torch.get_num_threads()), "kernels": kernels} if on_cpu else {}
        if on_cpu and on != torch.backends.mkldnn.enabled:
            raise KernelsSwitched(
                "expected one set of kernels, got two sets of kernels: oneDNN was switched off.",
                "compute in float32: torch switches oneDNN off on a CPU without half precision",
            )


@contextmanager
def without_autocast() -> Iterator[None]:
    """Compute in the precision of the tensors, on every device."""
    import torch

    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


@contextmanager
def as_written() -> Iterator[None]:
    """Compute as the code and the weights of a model say: not compiled, and without autocast.

    Hooks would be compiled again in every layer, or not at all; and sums of products that autocast
    rounds have no inverse.
    """
    import torch

    imported = "torch._dynamo" in sys.modules  # importing it takes seconds
    eager = torch.compiler.set_stance("force_eager") if imported else nullcontext()
    with without_autocast(), eager:
        yield


@contextmanager
def onednn(half: bool = False) -> Iterator[bool]:
    """Compute with oneDNN, or `half` precision without it where torch would switch it off.

    Yields whether oneDNN is on, and restores the setting afterwards, also if torch changed it.
    """
    import torch

    on = torch.backends.mkldnn.is_available() and not (half and not computes_half())
    with _restored_attribute(torch.backends.mkldnn, "enabled", on):
        yield on


def onednn_left_alone() -> Any:
    """Restore the setting of oneDNN afterwards, which torch may switch off."""
    import torch

    return _restored_attribute(torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled)


@cache
def computes_half() -> bool:
    """Whether products of half precision leave oneDNN on, tested with a small one of each kind."""
    import torch

    mkldnn = torch.backends.mkldnn
    if not mkldnn.is_available():
        return True
    linear = torch.nn.functional.linear
    with _restored_attribute(mkldnn, "enabled", True), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch warns when it switches oneDNN off
        for dtype in (torch.bfloat16, torch.float16):
            square = torch.ones(SIDE, SIDE, dtype=dtype)
            for x in (square, square[None].expand(2, -1, -1)):
                linear(x, square, square[0])
                linear(x, square)
            torch.mm(square.t(), square)  # as in the backward pass
            torch.bmm(square[None], square[None])
            torch.mv(square, square[0])
        return bool(mkldnn.enabled)


def is_half(model: Any) -> bool:
    """Whether the CPU computes this model in half precision: by its weights or under autocast."""
    import torch

    if torch.is_autocast_enabled("cpu"):
        return True
    half = (torch.bfloat16, torch.float16)
    return any(p.dtype in half and p.device.type == "cpu" for p in model.parameters())


def device_named(name: str | None) -> Any:
    """The device of that name, or for None the GPU if there is one and else the CPU."""
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch raises either
        raise DeadheadError(f"there is no device {name!r} here.", "use --device cpu") from None


@contextmanager
def computing(model: Any, half: bool = False) -> Iterator[None]:
    """One set of kernels for all computations with this model.

    half: they will be in half precision, though the weights are in float32 now.

    On GPUs, avoid cuDNN's attention, which torch prefers on the newest ones. It works in tiles of
    128 positions and plans every new shape again. At the lengths of sentences it took a quarter of
    the time of a ranking on an H200; without it rankings ran 1.16 times as fast.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attention = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with onednn(half or is_half(model)), sdpa_kernel(attention):
        yield


def precise_product(first: Any, second: Any) -> Any:
    """The product of two matrices; of float32, in full precision whatever torch is set to.

    NVIDIA's tensor cores multiply numbers of 11 bits (TF32) many times faster than others multiply
    float32. So each number is split into two of them, and the product of the two low parts, which
    is below the precision of float32, is left out.
    """
    import torch

    if first.dtype != torch.float32:
        return first @ second
    backends: Any = torch.backends
    if not first.is_cuda or torch.cuda.get_device_capability(first.device)[0] < AMPERE:
        with _restored_attribute(backends.mkldnn.matmul, "fp32_precision", "ieee"):
            return first @ second
    (high, low), (other_high, other_low) = (_split(matrix) for matrix in (first, second))
    with _restored_attribute(backends.cuda.matmul, "fp32_precision", "tf32"):
        return low @ other_high + high @ other_low + high @ other_high


def _split(matrix: Any) -> tuple[Any, Any]:
    """The first 11 bits of each number of float32, and the rest."""
    import torch

    high = matrix.view(torch.int32).bitwise_and(-1 << LOW_BITS).view(torch.float32)
    return high, matrix - high


@contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """Set a value, and restore the old one afterwards."""
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def _restored_attribute(owner: Any, name: str, value: Any) -> Any:
    return _restored(lambda: getattr(owner, name), lambda new: setattr(owner, name, new), value)


def _flushes_denormals() -> bool:
    """Whether this thread treats denormal numbers as 0; torch has no function that says so."""
    import torch

    return float(torch.tensor(TINY, dtype=torch.float32) * 1) == 0.0
