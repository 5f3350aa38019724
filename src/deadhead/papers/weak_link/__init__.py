"""On the weak link between importance and prunability of attention heads (2020)."""
