"""A study: a recipe run in a folder. `run` is also how a study is resumed, extended and repaired.

Trials that have a record do not run again, so a kill costs what was running and nothing more, and a
longer axis adds only what is missing.
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead import files
from deadhead.display.progress import counting

from . import missing_data
from .corpora import check_exact, other_data, papers_of, sources
from .execution.executors import EXECUTORS
from .execution.jobs import WORK, Control, Jobs, Workload
from .inputs import Fingerprints, InputsChanged, changed
from .inputs import described as inputs_text
from .recipe.display import published
from .recipe.load import Recipe, with_inputs
from .store import folder as place
from .store import records
from .store import shared_work as shared
from .store.folder import StudyError
from .trial import Trial, digest

Watch = Callable[[dict[str, Any]], None]
FORMAT = 2  # version of study.json; 1 had no digest
EDITED = "study.json was edited: it does not fit its digest"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The counts of a run."""

    total: int
    done: int
    failed: int
    left: int
    ran: int  # trials run this time
    seconds: float
    # what went wrong and was repaired (damaged work, hanging trials), other data than the paper's
    reports: tuple[str, ...] = ()


def run(
    recipe: Recipe,
    out: str | Path,
    *,
    workers: int = 1,
    executor: str = "local",
    retry_failed: bool = False,
    watch: bool | Watch = True,
    work: str = WORK,
    options: Mapping[str, Any] | None = None,
    trial_timeout: float | None = None,
) -> Result:
    """Run all trials of a recipe that have no record yet.

    watch: show a bar in a terminal or a notebook; or a function that is called every half second
        with what is running.
    work: the function that runs one trial, as `module:name`.
    trial_timeout: seconds a trial may take, with the executor `local`; None for no limit.
    """
    # Longer than most functions: it is the order of a run, and every part of it is a call.
    execute = EXECUTORS[executor]
    if workers < 1:
        raise StudyError(f"`workers` expects 1 or more, got {workers}.", "for instance --workers 1")
    if trial_timeout is not None:
        _check_timeout(trial_timeout, executor)
    start, is_new = time.monotonic(), not Path(out).exists()
    reads = work == WORK  # other functions may need no data
    if reads and is_new:
        _check_data(recipe.trials)  # before a folder is created
    if reads:
        recipe = with_inputs(recipe)
    folder = place.prepare(Path(out))
    with place.locked(folder), _watched(watch, recipe.name) as watcher:
        place.sweep(folder)
        damaged = [*shared.set_aside(folder), *records.heal(folder)]
        (folder / "stop").unlink(missing_ok=True)
        known = records.states(folder)
        recipe, stored = resume(recipe, folder)
        if stored and not records.is_unedited(stored):
            damaged.append(f"{EDITED}; written again from the recipe")
        _describe(recipe, folder)
        again = (None, "failed") if retry_failed else (None,)
        todo = [trial for trial in recipe.trials if known.get(trial.id) in again]
        if reads and not is_new:
            _check_data(todo)
        other = other_data(sources(todo), papers_of(recipe)) if reads else []
        states = Counter(known.get(trial.id) for trial in recipe.trials)
        before = {"done": states["done"], "failed": 0 if retry_failed else states["failed"]}
        control = Control(folder, watcher, before=before, left=len(todo), workers=workers)
        for text in (*damaged, *other):
            control.report(text)
        keys = shared.shared_keys(recipe.trials)
        load = Workload(
            jobs=Jobs(todo, keys, lambda key: shared.find(folder, key) is not None),
            folder=folder,
            control=control,
            work=work,
            workers=workers,
            options=options,
            timeout=trial_timeout,
        )
        _execute(execute, load)
        known |= records.states(folder)
        counts = Counter(known.get(trial.id, "left") for trial in recipe.trials)
        if not counts["left"]:  # states of killed trials that the recipe no longer has
            shutil.rmtree(folder / "training", ignore_errors=True)
        return Result(
            total=len(recipe.trials),
            done=counts["done"],
            failed=counts["failed"],
            left=counts["left"],
            ran=int(control.facts["done"] + control.facts["failed"]),
            seconds=time.monotonic() - start,
            reports=tuple(control.facts["reports"]),
        )


def _check_timeout(timeout: float, executor: str) -> None:
    """Refuse a limit that is no positive number, or that the executor cannot enforce."""
    if not 0 < timeout < float("inf"):
        raise StudyError(
            f"--trial-timeout expects a number of seconds above 0, got {timeout!r}.",
            "give --trial-timeout a number above 0",
        )
    if executor != "local":
        raise StudyError(
            f"--trial-timeout expects an executor that can end a trial, got {executor}.",
            "use --executor local with --trial-timeout",
        )


def _check_data(trials: list[Trial]) -> None:
    missing_data.check(trials)
    check_exact(trials)


@contextmanager
def _watched(watch: bool | Watch, name: str) -> Iterator[Watch | None]:
    """What to call with the state of the study: the function of the caller, or a bar."""
    if not isinstance(watch, bool):
        yield watch
    elif watch:
        with counting(name) as count:
            yield lambda facts: count(
                sum(facts["before"].values()) + facts["done"] + facts["failed"],
                facts["total"],
                next((trial["note"] for trial in facts["running"].values()), ""),
            )
    else:
        yield None


def _execute(execute: Callable[[Workload], None], load: Workload) -> None:
    """Run the trials; whatever happens, the status then says that none is running."""
    control = load.control
    try:
        with control.signals():
            control.publish()
            execute(load)
        if load.problem is not None:
            raise load.problem
    finally:
        control.running.clear()
        control.publish()
        with suppress(OSError):
            (load.folder / "stop").unlink(missing_ok=True)


def resume(recipe: Recipe, folder: Path) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with the fingerprints in study.json, and the content of study.json.

    Refuses the folder of another recipe, and of other files: half of the records would be about
    a model or data that is not there any more.
    """
    stored = place.read_json(folder / "study.json")
    if stored and stored.get("name") != recipe.name:
        raise StudyError(
            f"{folder} is a study of {stored.get('name')}, not of {recipe.name}.",
            "name another folder with --out",
        )
    before, problem = _fingerprints_of(stored), ""
    if names := changed(before, recipe.inputs):
        problem = f"was made with other files: {inputs_text(names)} changed since"
    elif stored.get("format") == 1 and recipe.inputs:
        problem = "does not say which files its records were made with"
    if problem:
        hint = "start a new study with --out NEW"
        raise InputsChanged(f"{folder} {problem}. Nothing was started.", hint)
    return with_inputs(recipe, {**before, **recipe.inputs}), stored


def _fingerprints_of(stored: Mapping[str, Any]) -> Fingerprints:
    """The inputs in study.json."""
    names = stored.get("inputs")
    if isinstance(names, dict) and all(isinstance(value, str) for value in names.values()):
        return names
    return {}


def _describe(recipe: Recipe, folder: Path) -> None:
    """Write study.json."""
    study: dict[str, Any] = {
        "format": FORMAT,
        "name": recipe.name,
        "recipe": dict(recipe.data),
        "cells": [[dict(cell.labels), cell.trial.id] for cell in recipe.cells],
    }
    study |= {"inputs": dict(recipe.inputs)} if recipe.inputs else {}
    study |= _published(recipe)
    study = json.loads(json.dumps(study))
    study["digest"] = digest(study)
    if study != place.read_json(folder / "study.json"):
        place.write(folder / "study.json", json.dumps(study))


def _published(recipe: Recipe) -> dict[str, Any]:
    """The published numbers that its tables name: the folder has all that a report needs."""
    tables = recipe.data.get("tables") or ()
    texts = {}
    for name in dict.fromkeys(table["published"] for table in tables if table.get("published")):
        with suppress(OSError, UnicodeDecodeError):
            if (file := published(name, Path(recipe.source).parent)) is not None:
                texts[name] = file.read_text(encoding="utf-8")
    return {"published": texts} if texts else {}


def described(folder: str | Path) -> dict[str, Any]:
    """What `run` wrote about a study: name, recipe, cells."""
    home = place.inside(Path(folder))
    stored = place.read_json(home / "study.json")
    if not _is_study(stored):
        hint = "name the folder `deadhead run` was given"
        raise StudyError(f"{home} is not a study: it has no study.json that can be read.", hint)
    if not records.is_unedited(stored):  # numbers might appear under the wrong labels
        hint = "repeat the command of the study: `deadhead run` writes it again"
        raise StudyError(f"{home / EDITED}.", hint)
    return stored


def _is_study(stored: Mapping[str, Any]) -> bool:
    return (
        stored.get("format") in (1, FORMAT)
        and isinstance(stored.get("name"), str)
        and isinstance(stored.get("recipe"), dict)
        and isinstance(stored.get("cells"), list)
    )


def clean(folder: str | Path, *, dry: bool = False) -> tuple[int, int]:
    """Delete the trained models that no trial needs; their number and bytes. `dry` only counts.

    Trials that are left or failed keep what they need. A longer study trains what it needs again.
    """
    home = place.inside(Path(folder))
    study = described(home)
    try:
        recipe = Recipe(name=str(study["name"]), data=study["recipe"])
        trials = with_inputs(recipe, _fingerprints_of(study)).trials
    except Exception as problem:  # it was not checked again, and may be from anybody
        raise StudyError(
            f"the trials of {home} cannot be read from its study.json: {problem!r}.",
            "repeat the command it was run with",
        ) from None
    with nullcontext() if dry else place.locked(home):
        known = records.states(home)
        left = [trial for trial in trials if known.get(trial.id) != "done"]
        homes = shared.spare(home, trials, left)
        total = sum(map(shared.size, homes))
        for work in homes if not dry else ():
            files.remove_folder(work)
    return len(homes), total


def stop(folder: str | Path, *, now: bool = False) -> bool:
    """Ask the run of a study to stop; False if there is none."""
    home = place.inside(Path(folder))
    if not place.is_running(home):
        described(home)  # or raise an error: a folder that is no study
        return False
    place.write(home / "stop", "now\n" if now else "finish\n", durable=False)
    return True
