"""Room 1: look inside one model and change it. Knows no data."""

from .captured import Captured, captured
from .discover import discover
from .gates import gated
from .load import load
from .means import HeadMeans, head_means
from .onnx import export
from .prune import prune
from .save import save

__all__ = ["Captured", "HeadMeans", "captured", "discover", "export", "gated", "head_means"]
__all__ += ["load", "prune", "save"]
