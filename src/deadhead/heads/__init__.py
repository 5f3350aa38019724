"""Room 1: look inside one model and change it. Knows no data."""

from .discover import discover
from .gates import gated
from .load import load
from .onnx import export
from .prune import prune
from .save import save

__all__ = ["discover", "export", "gated", "load", "prune", "save"]
