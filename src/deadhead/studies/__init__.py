"""Room 4: many trials, resumably. A recipe becomes trials, trials become records.

    recipe = load("weak-link/table4")          one screen of YAML, checked whole
    run(recipe, "my-study", workers=2)         again to resume; nothing is run twice
    frame("my-study")                          the records as a pandas DataFrame

Nothing here loads torch until a trial runs.
"""

from __future__ import annotations

from .frame import frame
from .plan import plan
from .recipe import Recipe, built_in, load
from .records import Record, read, summaries
from .run import STEPS, run_trial  # before `run` below, which is to be the name of the function
from .search import arms
from .status import Status, status
from .study import Result, clean, run, stop
from .trial import Trial

__all__ = [
    "STEPS",
    "Recipe",
    "Record",
    "Result",
    "Status",
    "Trial",
    "arms",
    "built_in",
    "clean",
    "frame",
    "load",
    "plan",
    "read",
    "run",
    "run_trial",
    "status",
    "stop",
    "summaries",
]
