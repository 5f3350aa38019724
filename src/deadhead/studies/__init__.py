"""Many trials that can be resumed: a recipe becomes trials, and trials become records.

    recipe = load("weak-link/table4")          one screen of YAML, checked as a whole
    run(recipe, "my-study", workers=2)         repeat it to resume; nothing runs twice
    summaries("my-study")                      the trial, state, metrics and cost of each record

Nothing here loads torch until a trial runs.
"""

from deadhead.studies.execution.one_trial import run_trial
from deadhead.studies.recipe.load import Recipe, built_in, load
from deadhead.studies.store.records import Record, read, summaries

from .plan import plan
from .status import Status, status
from .step import STEPS
from .study import Result, clean, run, stop
from .trial import Trial

__all__ = ["STEPS", "Recipe", "Record", "Result", "Status", "Trial", "built_in", "clean", "load"]
__all__ += ["plan", "read", "run", "run_trial", "status", "stop", "summaries"]
