"""Numbers as text for people."""

from __future__ import annotations


def size_text(number: float) -> str:
    """A number of bytes, such as `12 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def plural(number: int, noun: str) -> str:
    """A number with its noun: `1 trial`, `2,000 trials`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
