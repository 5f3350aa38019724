"""The figures of a study, as vega-lite charts.

A kind of figure is a subclass of `Figure` in a file of this folder, with its options and its code.
"""

from deadhead.registry import Registry
from deadhead.report.spec import Figure

FIGURES: Registry[type[Figure]] = Registry(
    "kind of figure",
    __name__,
    {
        "curve": "curve:Curve",
        "heads": "heads:Heads",
        "similarity": "similarity:Similarity",
        "points": "points:Points",
        "ends": "ends:Ends",
        "recovery": "recovery:Recovery",
        "layers": "heads:Layers",
        "gains": "gains:Gains",
        "epochs": "epochs:Epochs",
        "cost": "cost:Cost",
    },
)
