"""What heads and edges do to a metric: by patches from another run, or directly on the logits."""

from .circuit import Faithfulness, faithfulness
from .direct import DirectEffects, direct_effects
from .edges import edge_effects
from .effects import Effects
from .graph import Edge, EdgeEffects
from .metrics import logit, logit_difference
from .patching import patch_effects
from .paths import path_effects

__all__ = ["DirectEffects", "Edge", "EdgeEffects", "Effects", "Faithfulness", "direct_effects"]
__all__ += ["edge_effects", "faithfulness", "logit", "logit_difference", "patch_effects"]
__all__ += ["path_effects"]
