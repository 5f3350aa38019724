"""What a head does to a metric: patch its output, or single edges, from one run into another."""

from .circuit import Faithfulness, faithfulness
from .edges import edge_effects
from .effects import Effects
from .graph import Edge, EdgeEffects
from .metrics import logit_difference
from .patching import patch_effects
from .paths import path_effects

__all__ = ["Edge", "EdgeEffects", "Effects", "Faithfulness", "edge_effects", "faithfulness"]
__all__ += ["logit_difference", "patch_effects", "path_effects"]
