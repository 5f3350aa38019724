"""What a head does to a metric: patch its output from one run into another."""

from .effects import Effects
from .metrics import logit_difference
from .patching import patch_effects

__all__ = ["Effects", "logit_difference", "patch_effects"]
