"""One trial, from its model to its record. `run_trial` reads like a method section.

The steps are in `studies/steps`, one file each. They load torch when they run; this module
does not.
"""

import errno
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.numerics import fixed
from deadhead.studies.fields import as_list
from deadhead.studies.inputs import verify
from deadhead.studies.steps.state import State
from deadhead.studies.store import shared_work as shared
from deadhead.studies.store.folder import GpuLost, StudyError, no_room, refused
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial
from deadhead.version import versions

Run = Callable[[State, Trial], None]  # does a step


def run_trial(
    trial: Trial,
    folder: Path | None = None,
    keep: Collection[str] = (),
    tell: Callable[[str], None] = lambda text: None,
    steps: Mapping[str, Run] | None = None,
) -> Record:
    """Do the steps of a trial; an error becomes a failed record.

    The trial starts from the furthest state that another trial has stored.
    keep: keys of work that other trials wait for, to be left under the study's folder.
    steps: other functions that do the steps, for tests.
    """
    state, error = State(run=run_trial, folder=folder, tell=tell), None
    try:
        verify(trial)
        for at in range(_resume(state, trial), len(trial.steps)):
            state.at, step = at, trial.steps[at]
            with _timed(state, trial):
                _run(state, trial) if steps is None else steps[step](state, trial)
            key = trial.keys.get(at, "")
            if folder is not None and key in keep and shared.find(folder, key) is None:
                shared.keep(folder, key, state.save)
    except StudyError:
        raise  # the study's folder is at fault, not this trial
    except Exception as problem:
        if folder is not None and no_room(problem):
            raise refused(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from problem
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(problem, torch.AcceleratorError):
            # every further call to the GPU fails in this process (not so when memory runs out)
            hint = "look at nvidia-smi, then run the same again with --retry-failed"
            message = f"the GPU gave up: {str(problem).splitlines()[0]}"
            raise GpuLost(message, hint) from problem
        error = traceback.format_exc()
    return _record(trial, state, keep, error)


def _run(state: State, trial: Trial) -> None:
    """Do a step with the threads and kernels of a fresh process, which are in the record."""
    with fixed() as kernels:
        state.versions.update(kernels)
        trial.protocol[state.at].run(state, trial)


@contextmanager
def _timed(state: State, trial: Trial) -> Iterator[None]:
    """Note the seconds of a step; a step that comes again is numbered."""
    step, start = trial.steps[state.at], time.perf_counter()
    number = trial.steps[: state.at + 1].count(step) if trial.steps.count(step) > 1 else ""
    try:
        yield
    finally:
        state.cost[f"{step}{number} s"] = round(time.perf_counter() - start, 3)


def _resume(state: State, trial: Trial) -> int:
    """Restore the furthest stored state; returns the number of the step to resume with."""
    if state.folder is None:
        return 0
    trained: Path | None = None  # the folder of the model that the next step uses
    stored = {at: shared.find(state.folder, key) for at, key in sorted(trial.keys.items())}
    start = 0
    for at, home in stored.items():
        ranked = trial.protocol[at].ranks
        needs_model = ranked and at > 0 and not any(s.restarts for s in trial.protocol[at:])
        if home is None or (needs_model and trained is None):
            continue  # not there, or a ranking whose model is not there
        trained = trained if ranked else home / "model"
        state.restore(home)
        state.cost["reused"], start = trial.keys[at], at + 1
    state.weights = trained
    return start


def _record(trial: Trial, state: State, keep: Collection[str], error: str | None) -> Record:
    return Record(
        trial=trial,
        state="done" if error is None else "failed",
        removed=tuple(state.removed),
        metrics=state.metrics,
        epochs=tuple(state.epochs),
        cost=state.cost,
        versions={**versions(), **state.versions},
        data=dict(sorted(state.data.items())),
        shared={trial.steps[at]: key for at, key in trial.keys.items() if key in keep},
        details={**state.details, **_ranking(trial, state.ranking)},
        error=error,
    )


def _ranking(trial: Trial, ranking: Any) -> dict[str, Any]:
    """What the record says about a ranking of this trial or of an earlier one."""
    if ranking is None:
        return {}
    entry = {"method": ranking.method, "languages": as_list(trial.get("source"))}
    entry["scores"] = {str(head): float(score) for head, score in ranking.scores.items()}
    if "merged" in ranking.data:
        entry["merge"] = ranking.data["merged"]
    return {"ranking": entry}
