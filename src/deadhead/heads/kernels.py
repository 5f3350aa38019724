"""What torch computes on, and with which attention kernel where its own first choice is a slow one."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import DeadheadError, unknown_name

DEVICES = ("cpu", "cuda", "mps")


def device_named(name: str | None) -> torch.device:
    """The device of that name, or the best one there is; an error for one that is not here."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch says so in either way
        raise DeadheadError(f"there is no device {name!r} here.", "use --device cpu") from None


def for_sentences() -> AbstractContextManager[None]:
    """Keep away from cuDNN's attention, which torch prefers on the newest GPUs.

    It works in tiles of 128 positions and plans every new shape anew. At the lengths of sentences it took a
    quarter of the time of a ranking on an H200; without it rankings ran 1.16 times as fast.
    """
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
