"""The mean of what was removed, added to the bias, as FLAP (An et al. 2024) does."""

from .repair import Repair, refitting_by

MEAN = Repair(
    help="add the mean of what was removed to the biases",
    plan=refitting_by("mean"),
    new_biases="cut",
)
