"""What a study will take before it is started: trials, trainings, time and disk.

Counts are exact. Time and disk are estimates: from the records of the study where it has some, else
from sizes and speeds (`cost`), and then the plan calls them rough.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deadhead.numerics import threads

from . import cost
from . import missing_data as data_check
from .corpora import other_data, papers_of, sources
from .execution.processes import cores, gpus
from .inputs import InputsChanged
from .recipe.load import Recipe, with_inputs
from .step import STEPS
from .store.records import Scan, Summary, scan
from .store.shared_work import shared_keys
from .study import resume
from .trial import Trial

RECORD = 8_000  # bytes of a record and its predictions
BYTES = 24  # memory per weight in training: weight, gradient, two moments, half as much again
PROCESS = 1e9  # bytes of memory of a worker beside its model


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Counts and estimates of a study."""

    name: str
    cells: int
    trials: int
    done: int  # trials with a record
    failed: int  # trials that run again only with --retry-failed
    trainings: int  # in the trials that are left, shared ones counted once
    rankings: int
    shared: int  # trainings that several trials start from
    seconds: float
    bytes: int
    basis: str  # what the estimate is based on
    gpu_hours: Mapping[str, float] = field(default_factory=dict)  # on one GPU of each kind
    lacking: tuple[str, ...] = ()  # missing data, a line each
    hint: tuple[str, ...] = ()  # what to do about it
    other_data: tuple[str, ...] = ()  # what is not the data of the paper, a line for each task
    warnings: tuple[str, ...] = ()  # what can be run and is probably a mistake, a line each
    shortfalls: tuple[str, ...] = ()  # fewer training rows than data.examples, a line each
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used; their trials run again

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan(recipe: Recipe, out: str | Path | None = None, workers: int = 1) -> Plan:
    """Count the work of a recipe, less what the folder has; the time is on this machine."""
    folder = None if out is None else Path(out)
    recipe = recipe if recipe.inputs else with_inputs(recipe)
    stored = scan(folder) if folder is not None and (folder / "records").is_dir() else Scan()
    known, notes = stored.known, warnings(recipe)
    if folder is not None and known:
        try:
            recipe, _ = resume(recipe, folder)
        except InputsChanged as problem:
            notes += (f"{problem.message} `run` would refuse: {problem.hint}.",)
    trials = recipe.trials
    left = [trial for trial in trials if trial.id not in known]
    states = Counter(known[trial.id].state for trial in trials if trial.id in known)
    works, keys = _works(left, folder), shared_keys(trials)
    trained = {key: trial for key, (i, trial) in works.items() if trial.protocol[i].trains}
    shared = [trial for key, trial in trained.items() if key in keys]
    missing = data_check.missing_data(left)
    operations = cost.operations([*works.values(), *_inspections(left)])
    done = [r for r in known.values() if r.state == "done"]
    time, basis = _from_records(done, len(left), workers) or cost.estimate(operations)
    return Plan(
        name=recipe.name,
        cells=len(recipe.cells),
        trials=len(trials),
        done=states["done"],
        failed=states["failed"],
        trainings=len(trained),
        rankings=len(works) - len(trained),
        shared=len(shared),
        seconds=time,
        bytes=RECORD * len(left) + sum(int(4 * cost.weights(trial)) for trial in shared),
        basis=basis,
        gpu_hours=cost.gpu_hours(operations),
        lacking=tuple(data_check.lines(missing)),
        hint=tuple(data_check.hints(missing)) if missing else (),
        other_data=tuple(other_data(sources(left), papers_of(recipe))),
        warnings=notes,
        shortfalls=tuple(data_check.too_few_rows(left)),
        damaged=tuple(stored.damaged),
    )


def _from_records(done: list[Summary], left: int, workers: int) -> tuple[float, str] | None:
    """The seconds of the trials that are left, and what they are based on; None without records."""
    if not done:
        return None
    mean = sum(record.seconds for record in done) / len(done)
    return left * mean / workers, f"the mean of {len(done)} records, {workers} at a time"


def _works(trials: list[Trial], folder: Path | None) -> dict[str, cost.Work]:
    """Every training and ranking that is still to do, once, by the hash of what shapes it."""
    works: dict[str, cost.Work] = {}
    for trial in (part for whole in trials for part in (*whole.sources, whole)):
        for place, step in enumerate(trial.protocol):
            parts = next(step.part_trials(trial, place), None)
            if step.trains or (step.ranks and parts is None):
                key = trial.keys.get(place, f"{trial.id}/{place}")
                if folder is None or not (folder / "shared" / key).is_dir():
                    works.setdefault(key, (place, trial))
    return works


def _inspections(trials: list[Trial]) -> list[cost.Work]:
    """The steps that every trial does for itself, such as scoring."""
    every = ((place, trial) for trial in trials for place in range(len(trial.protocol)))
    return [(i, t) for i, t in every if not (t.protocol[i].trains or t.protocol[i].ranks)]


def warnings(recipe: Recipe) -> tuple[str, ...]:
    """What a recipe may contain and its user hardly wants: models that no step scores."""
    parts = (recipe.data, *(recipe.data.get("include") or ()))
    last = dict.fromkeys(part["steps"][-1] for part in parts if "steps" in part)
    return tuple(
        f"No step scores the model after {name}, so there will be no scores to show: "
        "end steps with evaluate."
        for name in last
        if not (STEPS[name].inspects or STEPS[name].ranks)
    )


def usual_workers(recipe: Recipe) -> int:
    """How many trials run at a time by default: one on each GPU, else what the machine holds."""
    if cards := len(gpus(os.environ)):
        return cards
    need = PROCESS + BYTES * max((cost.weights(trial) for trial in recipe.trials), default=0.0)
    free = _memory()
    fitting = cores() if free is None else int(free / need)
    return max(1, min(cores() // threads(), len(recipe.trials), fitting))


def _memory() -> float | None:
    """The bytes of memory that are free to use; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024.0 * int(free.split()[1])
    except (OSError, StopIteration, ValueError):
        return None
