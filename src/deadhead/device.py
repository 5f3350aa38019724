"""The device that torch computes on, and the kernels it uses there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from deadhead.errors import DeadheadError, UnknownName, unknown_name
from deadhead.numerics import is_half, onednn

DEVICES = ("cpu", "cuda", "mps")
# what users call the devices that torch calls otherwise
OTHER_NAMES = dict.fromkeys(("gpu", "nvidia", "rocm", "amd", "hip"), "cuda") | {"metal": "mps"}


def device_named(name: str | None) -> torch.device:
    """The device of that name, or for None the GPU if there is one and else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in DEVICES:
        raise _unknown_device(name)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch raises either
        raise DeadheadError(f"there is no device {name!r} here.", "use --device cpu") from None


def _unknown_device(name: str) -> DeadheadError:
    word = name.partition(":")[0].lower()
    device = word if word in DEVICES else OTHER_NAMES.get(word)
    if device is None:
        return unknown_name("device", name, DEVICES)
    available = device == "cpu" or getattr(torch, device).is_available()
    return UnknownName(
        f"no device {name!r}. Did you mean {device!r}? Known: {', '.join(DEVICES)}.",
        f"use --device {device}" if available else f"use --device cpu: torch has no {device} here",
    )


@contextmanager
def computing(model: nn.Module, half: bool = False) -> Iterator[None]:
    """One set of kernels for all computations with this model.

    half: they will be in half precision, though the weights are in float32 now.

    On GPUs, avoid cuDNN's attention, which torch prefers on the newest ones. It works in tiles of
    128 positions and plans every new shape again. At the lengths of sentences it took a quarter of
    the time of a ranking on an H200; without it rankings ran 1.16 times as fast.
    """
    attention = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with onednn(half or is_half(model)), sdpa_kernel(attention):
        yield
