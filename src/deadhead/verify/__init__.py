"""Check a user's own model: the proof, and an ablation by hand."""

from .check_ablation import AblationCheck, check_ablation

__all__ = ["AblationCheck", "check_ablation"]
