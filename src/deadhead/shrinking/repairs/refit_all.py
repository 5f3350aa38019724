"""Least squares for all output projections, also those that lose nothing.

It takes longer; it is better on data like the batches, and worse on other data.
"""

from deadhead.shrinking.candidates import CANDIDATES

from .repair import Repair, refitting_by

REFIT_ALL = Repair(
    help="refit every output projection by least squares",
    plan=refitting_by(*CANDIDATES, everywhere=True),
    new_biases="every",
    compare_by="refit",
)
