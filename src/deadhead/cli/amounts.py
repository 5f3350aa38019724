"""Times and sizes for people."""

from __future__ import annotations


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return (
        f"{hours}:{minutes:02}:{rest:02}"
        if hours
        else f"{minutes}:{rest:02}"
        if minutes
        else f"{rest} s"
    )


def in_bytes(number: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
