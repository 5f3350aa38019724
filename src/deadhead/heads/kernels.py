"""Which attention kernel torch uses, where its own first choice is a slow one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch.nn.attention import SDPBackend, sdpa_kernel


def for_sentences() -> AbstractContextManager[None]:
    """Keep away from cuDNN's attention, which torch prefers on the newest GPUs.

    It works in tiles of 128 positions and plans every new shape anew. At the lengths of sentences it took a
    quarter of the time of a ranking on an H200, and without it rankings ran 1.2 times as fast.
    """
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
