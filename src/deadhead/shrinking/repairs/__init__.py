"""Repairs of the layers after the cut: `REPAIRS` has a `Repair` for each name."""

from deadhead.registry import Registry

from .repair import Planner, Repair, refitting_by

REPAIRS: Registry[Repair] = Registry(
    "repair",
    __name__,
    {
        "none": "none:NONE",
        "mean": "mean:MEAN",
        "scales": "scales:SCALES",
        "refit": "refit:REFIT",
        "refit-all": "refit_all:REFIT_ALL",
    },
)

__all__ = ["REPAIRS", "Planner", "Repair", "refitting_by"]
