"""Room 1: look inside one model and change it. Knows no data."""

from .discover import discover
from .export import export
from .folder import save
from .gates import gated
from .loading import load
from .surgery import prune

__all__ = ["discover", "export", "gated", "load", "prune", "save"]
