"""What a study will take, before it is begun: trials, trainings, time and disk.

Counts are exact. Time and disk are estimates: from the records of the study where it has some, else
from sizes and a speed that are written down here, and said to be rough.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.hub import split
from deadhead.numerics import threads
from deadhead.papers import stated
from deadhead.studies.execution.processes import cores, gpus
from deadhead.studies.recipe.expand import label
from deadhead.studies.recipe.load import Recipe, with_inputs
from deadhead.studies.steps.needs import FIND, estimated_rows, lacking, mends, short, told
from deadhead.studies.store.records import Scan, Summary, scan
from deadhead.studies.store.shared_work import wanted

from .inputs import InputsChanged
from .resume import resume
from .status import seconds
from .trial import LOOKS, RANKS, TRAINS, Trial

RECORD = 8_000  # bytes of a record, its line in the index and its predictions
# Training rows of corpora, and weights of models, for a rough guess before anything is downloaded.
ROWS = {**stated("rows"), "rte": 2_490, "parallel": 30_000}
WEIGHTS = {**stated("weights"), "bert-base-cased": 108e6, "transformer-small": 13e6, "transformer-mini": 6e5}  # fmt: skip
USUAL = 110e6  # weights of a model nothing is known of
WORLD = (1e6, 2_000)  # weights and training rows of the small world
WORK = 6 * 40  # operations per weight and example: forward and backward, some 40 sub-words
BYTES = 24  # of memory per weight in training: weight, gradient, two moments, and half as much again for the rest
PROCESS = 1e9  # bytes of memory of a worker beside its model
SPEED = {"gpu": 5e13, "core": 2e10}  # operations per second that short trainings reach


@dataclass(frozen=True)
class Plan:
    """Counts and estimates of a study."""

    name: str
    cells: int
    trials: int
    done: int  # of these, already
    failed: int  # of these, already; they are not run again unless asked for
    trainings: int  # in the trials that are left, shared ones counted once
    rankings: int
    shared: int  # trainings that several trials start from
    seconds: float
    bytes: int
    basis: str  # what the estimate rests on
    lacking: tuple[str, ...] = ()  # data that cannot be found, a line each
    hint: tuple[str, ...] = ()  # what to do about it
    warnings: tuple[str, ...] = ()  # what can be run and is hardly meant, a line each
    shortfalls: tuple[str, ...] = ()  # fewer training rows than data.examples asks for, a line each
    models: tuple[
        str, ...
    ] = ()  # what the trials are made of, each once, in the order of the trials
    tasks: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    removals: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used; their trials run again

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan(recipe: Recipe, out: str | Path | None = None, workers: int = 1) -> Plan:
    """Count what a recipe asks for, less what the folder already holds."""
    recipe = recipe if recipe.inputs else with_inputs(recipe)
    stored = scan(Path(out)) if out is not None and (Path(out) / "records").is_dir() else Scan()
    known, notes = dict(stored.known), warnings(recipe)
    if out is not None and known:
        try:
            held = resume(recipe, Path(out), {name: one.state for name, one in known.items()})
        except InputsChanged as problem:
            notes += (f"{problem.message} `run` would refuse: {problem.hint}.",)
        else:
            recipe, known = held.recipe, known | {new: known[old] for new, old in held.kept.items()}
    left = [trial for trial in recipe.trials if known.get(trial.id, None) is None]
    states = Counter(known[trial.id].state for trial in recipe.trials if trial.id in known)
    counted = wanted(recipe.trials)
    steps = Counter[str]()
    works: dict[
        str, tuple[str, Trial]
    ] = {}  # every training and ranking once, by the hash of what shapes it
    for trial in left:
        for one in (*trial.sources, trial):
            for at, step in enumerate(one.steps):
                if step in (*TRAINS, "rank"):
                    works.setdefault(one.keys.get(at, f"{one.id}/{at}"), (step, one))
    for key in [key for key in works if out is not None and (Path(out) / "shared" / key).is_dir()]:
        del works[key]
    for step, _ in works.values():
        steps[step] += 1
    shared = [trial for key, (step, trial) in works.items() if key in counted and step in TRAINS]
    missing = lacking(left)
    time, basis = _time(left, works, known, workers)
    disk = RECORD * len(left) + sum(int(4 * _weights(trial)) for trial in shared)
    return Plan(
        name=recipe.name,
        cells=len(recipe.cells),
        trials=len(recipe.trials),
        done=states["done"],
        failed=states["failed"],
        trainings=sum(steps[step] for step in TRAINS),
        rankings=steps["rank"],
        shared=len(shared),
        seconds=time,
        bytes=disk,
        basis=basis,
        lacking=tuple(told(missing)),
        hint=tuple(mends(missing)) if missing else (),
        warnings=notes,
        shortfalls=tuple(map(str, short(left))),
        **contents(recipe),
        damaged=tuple(stored.damaged),
    )


def contents(recipe: Recipe) -> dict[str, tuple[str, ...]]:
    """The models, tasks, languages and removals of a recipe, each once."""
    trials = recipe.trials
    return {
        "models": tuple(dict.fromkeys(str(trial.get("model")) for trial in trials)),
        "tasks": tuple(dict.fromkeys(str(trial.get("task")) for trial in trials)),
        "languages": tuple(dict.fromkeys(lang for trial in trials for _, lang, _ in trial.reads())),
        "removals": tuple(dict.fromkeys(_removal(trial) for trial in trials)),
    }


def _removal(trial: Trial) -> str:
    removal = trial.get("remove")
    return "none" if removal is None else str(label(removal))


def warnings(recipe: Recipe) -> tuple[str, ...]:
    """What a recipe asks for that its user hardly wants: models that nobody looks at."""
    parts = [
        part["steps"]
        for part in (recipe.data, *(recipe.data.get("include") or ()))
        if "steps" in part
    ]
    last = dict.fromkeys(steps[-1] for steps in parts if steps[-1] not in (*LOOKS, *RANKS))
    return tuple(
        f"Nothing looks at the model after {step}, so there will be no scores to show: end steps with evaluate."
        for step in last
    )


def _time(
    left: list[Trial],
    works: Mapping[str, tuple[str, Trial]],
    known: Mapping[str, Summary],
    workers: int,
) -> tuple[float, str]:
    costs = [seconds(one) for one in known.values() if one.state == "done"]
    if costs:
        return len(left) * sum(costs) / len(
            costs
        ) / workers, f"the mean of {len(costs)} records, {workers} at a time"
    rows = cache(_rows)  # for this plan alone: files may change
    device = "gpu" if gpus(os.environ) else "core"
    speed = SPEED[device] * (len(gpus(os.environ)) if device == "gpu" else min(cores(), 8))
    total = sum(
        _training(trial, step, rows) / speed for step, trial in works.values() if step in TRAINS
    )
    return (
        total,
        f"a rough guess from the sizes of model and data, on {len(gpus(os.environ)) or cores()} {device}s",
    )


def usual_workers(recipe: Recipe) -> int:
    """How many trials to run at a time where nobody says: one on each GPU, else as many as cores and memory hold."""
    cards = len(gpus(os.environ))
    if cards:
        return cards
    need = PROCESS + BYTES * max((_weights(trial) for trial in recipe.trials), default=0.0)
    room = _memory()
    return max(
        1,
        min(
            cores() // threads(), len(recipe.trials), cores() if room is None else int(room / need)
        ),
    )


def _memory() -> float | None:
    """The bytes of memory that are free to use; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(
            1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")
        )
    except (OSError, StopIteration, ValueError):
        return None


def _training(trial: Trial, step: str, counted: Callable[[str, str, str], int | None]) -> float:
    """Operations of one training; `counted` tells the rows that are there."""
    data = trial.get("data") or {}
    world = data.get("root") == "world"
    usual = WORLD[1] if world else ROWS.get(str(trial.get("task")).partition("-")[0], 10_000)
    where = json.dumps({name: data[name] for name in FIND if name in data}, sort_keys=True)
    each = [
        usual if world else counted(trial.get("task"), one, where) or usual
        for one in trial.languages(trial.steps.index(step))
    ]
    rows = sum(min(one, data.get("examples") or one) for one in each)
    return float(WORK * _weights(trial) * rows * (trial.get(step) or {}).get("epochs", 1))


def _rows(task: str, language: str, where: str) -> int | None:
    """About how many rows the training file in a folder has; None where there is no such file."""
    from deadhead.tasks import find_data

    found = find_data(task, language, ["train"], **json.loads(where))["train"]
    if isinstance(found, DataError) or not Path(found).is_file():
        return None
    return estimated_rows(found)


def _weights(trial: Trial) -> float:
    name = str(trial.get("model"))
    if name.startswith("world/"):
        return WORLD[0]
    files = list(Path(name).glob("*.safetensors")) if Path(name).is_dir() else []
    return (
        sum(file.stat().st_size for file in files) / 4
        if files
        else WEIGHTS.get(split(name)[0], USUAL)
    )
