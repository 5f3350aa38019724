"""Room 4: many trials, resumably. A recipe becomes trials, trials become records.

    recipe = load("weak-link/table4")          one screen of YAML, checked whole
    run(recipe, "my-study", workers=2)         again to resume; nothing is run twice
    frame("my-study")                          the records as a pandas DataFrame

Nothing here loads torch until a trial runs.
"""

from __future__ import annotations

from .recipe import Recipe, built_in, load
from .records import Record, read, summaries
from .study import Result, run, stop
from .trial import Trial

__all__ = ["Recipe", "Record", "Result", "Trial", "built_in", "load", "read", "run", "stop", "summaries"]
