"""Least squares for the output projections that lose inputs, and for a task layer."""

from deadhead.shrinking.candidates import CANDIDATES

from .repair import Repair, refitting_by

REFIT = Repair(
    help="refit the output projections that lose inputs by least squares",
    plan=refitting_by(*CANDIDATES),
    new_biases="cut",
)
