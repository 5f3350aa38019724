"""Room 1: look inside one model and change it. Knows no data."""

from .captured import Captured, captured
from .discover import discover
from .exports import export
from .gates import gated
from .load import load
from .means import HeadMeans, head_means
from .prune import prune
from .save import save
from .verify.check_ablation import AblationCheck, check_ablation

__all__ = ["AblationCheck", "Captured", "HeadMeans", "captured", "check_ablation", "discover"]
__all__ += ["export", "gated", "head_means", "load", "prune", "save"]
