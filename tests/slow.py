"""Parameters of which `make test` tries some, and `make test-all` every one."""

import pytest


def slow_but(fast, every):
    """Mark all as slow but those whose name, or whose first value, is one of these words."""
    names = fast.split()
    parameters = []
    for value in every:
        first = value[0] if isinstance(value, tuple) else value
        values = value if isinstance(value, tuple) else (value,)
        marks = () if first in names else pytest.mark.slow
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
