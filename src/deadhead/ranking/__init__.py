"""Rankings of heads: the scores and where they came from, how to compare and to draw them."""

from .compare import Correlation, Overlap
from .ranking import Ranking, built, check_same_build, check_same_heads, correlations

__all__ = ["Correlation", "Overlap", "Ranking", "built", "check_same_build", "check_same_heads"]
__all__ += ["correlations"]
