"""How many threads compute one trial on the CPU: the same number whoever runs it.

The last digits of a sum depend on how many threads add it up, and a training carries them on. So the
number of threads must not follow from how many workers there are: it is 1, or what DEADHEAD_THREADS
says, it is written into the record, and cores are filled with more workers instead. Loads no torch
until it is asked to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import DeadheadError

NAME = "DEADHEAD_THREADS"
MOST = 1024


def threads() -> int:
    """The threads of one trial."""
    text = os.environ.get(NAME) or "1"
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise DeadheadError(f"{NAME}={text}: this is not a number of threads.", f"give a whole number, such as {NAME}=2")
    return int(text)


@contextmanager
def fixed() -> Iterator[int | None]:
    """Compute with that many threads, and afterwards with as many as before. None on a GPU, where it changes no number."""
    import torch

    if torch.cuda.is_available():
        yield None
        return
    before, wanted = torch.get_num_threads(), threads()
    torch.set_num_threads(wanted)
    try:
        yield wanted
    finally:
        torch.set_num_threads(before)
