"""Parameters of which `make test` tries some, and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(fast: str, every: Iterable[Any]) -> list[Any]:
    """Mark all as slow but those whose name, or whose first value, is one of these words."""
    names = fast.split()
    parameters = []
    for value in every:
        first = value[0] if isinstance(value, tuple) else value
        values = value if isinstance(value, tuple) else (value,)
        marks = () if first in names else pytest.mark.slow
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
