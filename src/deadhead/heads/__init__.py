"""Room 1: look inside one model and change it. Knows no data."""

from .discover import discover
from .gates import gated
from .surgery import prune

__all__ = ["discover", "gated", "prune"]
