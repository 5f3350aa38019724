"""Look inside one model and change it: find, gate, cut, save and load its heads. Knows no data."""

from .captured import Captured, captured
from .discover import discover
from .gates import gated
from .load import load
from .means import HeadMeans, head_means
from .prune import prune
from .save import save
from .streaming import Streaming

__all__ = ["Captured", "HeadMeans", "Streaming", "captured", "discover", "gated", "head_means"]
__all__ += ["load", "prune", "save"]
