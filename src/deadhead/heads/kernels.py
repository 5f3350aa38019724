"""What torch computes on, and with which kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from deadhead.errors import DeadheadError, UnknownName, unknown_name
from deadhead.numerics import is_half, onednn

DEVICES = ("cpu", "cuda", "mps")
GPUS = ("gpu", "nvidia", "rocm", "amd", "hip")  # what people call what torch calls cuda


def device_named(name: str | None) -> torch.device:
    """The device of that name, or the best one there is; an error for one that is not here."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in DEVICES:
        raise _unknown(name)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch says so in either way
        raise DeadheadError(f"there is no device {name!r} here.", "use --device cpu") from None


def _unknown(name: str) -> DeadheadError:
    """The error for a device torch does not know, with the one that is meant: torch calls a GPU by its maker's software."""
    word = name.partition(":")[0].lower()
    meant = (
        word if word in DEVICES else "mps" if word == "metal" else "cuda" if word in GPUS else None
    )
    if meant is None:
        return unknown_name("device", name, DEVICES)
    here = meant == "cpu" or getattr(torch, meant).is_available()
    hint = (
        f"use --device {meant}" if here else f"use --device cpu: torch finds no {meant} device here"
    )
    return UnknownName(
        f"no device {name!r}. Did you mean {meant!r}? Known: {', '.join(DEVICES)}.", hint
    )


@contextmanager
def computing(model: nn.Module, half: bool = False) -> Iterator[None]:
    """One set of kernels for all that is computed with this model, whatever the process computed before.

    half: it will be computed in half precision, though its weights are of float32 now.

    On GPUs, keep away from cuDNN's attention, which torch prefers on the newest ones. It works in tiles of 128
    positions and plans every new shape anew. At the lengths of sentences it took a quarter of the time of a
    ranking on an H200; without it rankings ran 1.16 times as fast.
    """
    attention = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )
    with onednn(half or is_half(model)), attention:
        yield
