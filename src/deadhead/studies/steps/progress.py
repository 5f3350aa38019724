"""Messages of a step to whoever watches its trial, but not more often than anyone reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

EVERY = 1.0  # seconds between two messages


def throttled(tell: Callable[[str], None]) -> Callable[[Any], None]:
    """The same function, which skips messages that come too early."""
    last = 0.0

    def say(message: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            tell(str(message))

    return say
