"""A study: a recipe run in a folder. `run` is also how a study is resumed, extended and repaired.

Trials whose record is there are not run again, so a kill costs what was running and nothing more, and
a longer axis adds only what is missing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name
from deadhead.files import Syncer
from deadhead.studies.execution.executors import EXECUTORS
from deadhead.studies.execution.jobs import WORK, Control, Jobs, Workload
from deadhead.studies.execution.watchdog import AUTO, Watchdog, check_timeout
from deadhead.studies.recipe.display import published
from deadhead.studies.recipe.load import Recipe, with_inputs
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record
from deadhead.studies.store.validity import is_labels, is_recipe

from . import missing_data
from .resume import Resumed, fingerprints_of, resume
from .store import folder as place
from .store import records
from .store import shared_work as shared


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    total: int
    done: int
    failed: int
    left: int
    ran: int  # trials run this time
    seconds: float
    reports: tuple[
        str, ...
    ] = ()  # what went wrong on the way and was put right: damaged work, hanging trials


def run(
    recipe: Recipe,
    out: str | Path,
    *,
    workers: int = 1,
    executor: str = "local",
    retry_failed: bool = False,
    accept_changed: bool = False,
    watch: Callable[[dict[str, Any]], None] | None = None,
    work: str = WORK,
    options: Mapping[str, Any] | None = None,
    trial_timeout: float | str | None = AUTO,
) -> Result:
    """Run all trials of a recipe that have no record yet.

    accept_changed: continue although the model or the data is not what the records here were made with. The records
        stay, and the study remembers that they read something else.
    watch: called every half second with what is running.
    work: the function that runs one trial, as `module:name`.
    trial_timeout: seconds a trial may take; None for no limit. By default it may take as long as it makes
        progress: it hangs if it makes none for 20 times as long as the longest trial took, or half an hour.
    """
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    if workers < 1:
        raise StudyError(f"{workers} workers cannot do anything.", "give --workers 1 or more")
    check_timeout(trial_timeout, executor)
    start = time.monotonic()
    reads, new = (
        work == WORK,
        not Path(out).exists(),
    )  # what others do with a trial may need no data
    if reads and new:
        missing_data.check(recipe.trials)  # what is refused leaves no folder behind
    if reads:
        recipe = with_inputs(recipe)
    folder = place.prepare(Path(out))
    with place.locked(folder):
        place.sweep(folder)
        damaged = [*shared.set_aside(folder), *records.heal(folder)]
        (folder / "stop").unlink(missing_ok=True)
        known = records.states(folder)
        held = resume(
            recipe, folder, known, accept_changed=accept_changed, retry_failed=retry_failed
        )
        recipe, kept = held.recipe, held.kept
        _describe(recipe, folder, held)
        known |= {new: known[old] for new, old in kept.items()}
        todo = missing(recipe, known, retry_failed)
        if reads and not new:
            missing_data.check(todo)
        states = Counter(known.get(trial.id) for trial in recipe.trials)
        before = {"done": states["done"], "failed": 0 if retry_failed else states["failed"]}
        control = Control(
            folder,
            before=before,
            left=len(todo),
            workers=workers,
            watch=watch,
            watchdog=Watchdog(trial_timeout),
        )
        jobs = Jobs(
            todo,
            shared.shared_keys(recipe.trials),
            lambda key: shared.find(folder, key) is not None,
        )
        for text in damaged:
            control.report(text)
        syncer = Syncer(place.refused)
        load = Workload(
            jobs=jobs,
            folder=folder,
            finish=lambda record: _finish(record, folder, syncer),
            control=control,
            work=work,
            workers=workers,
            options=options,
        )
        try:
            with control.signals(), syncer:
                control.publish()
                EXECUTORS[executor](load)
        finally:
            control.running.clear()
            control.publish()
            with suppress(OSError):
                (folder / "stop").unlink(missing_ok=True)
        ran = int(control.facts["done"] + control.facts["failed"])
        known |= records.states(folder)
        result = _result(recipe, known, ran, time.monotonic() - start, control.facts["reports"])
        if not result.left:
            shutil.rmtree(
                folder / "training", ignore_errors=True
            )  # of trials that were killed and are not asked for any more
        return result


def missing(recipe: Recipe, known: Mapping[str, str], retry_failed: bool = False) -> list[Any]:
    """The trials without a record; with `retry_failed` also those that failed."""
    wanted = (None, "failed") if retry_failed else (None,)
    return [trial for trial in recipe.trials if known.get(trial.id) in wanted]


def _finish(record: Record, folder: Path, syncer: Syncer) -> None:
    records.write(record, folder, syncer)


def _result(
    recipe: Recipe, known: Mapping[str, str], ran: int, seconds: float, reports: Iterable[str]
) -> Result:
    states = [known.get(trial.id, "left") for trial in recipe.trials]
    return Result(
        len(states),
        states.count("done"),
        states.count("failed"),
        states.count("left"),
        ran,
        seconds,
        tuple(reports),
    )


def _describe(recipe: Recipe, folder: Path, held: Resumed | None = None) -> None:
    """Write down what is studied here."""
    held = held or Resumed(recipe, {}, (), {})
    cells = [
        [dict(cell.labels), held.kept.get(cell.trial.id, cell.trial.id)] for cell in recipe.cells
    ]
    whole = {"format": 1, "name": recipe.name, "recipe": dict(recipe.data), "cells": cells}
    whole |= {"inputs": dict(recipe.inputs)} if recipe.inputs else {}
    whole |= {"earlier": list(held.earlier)} if held.earlier else {}
    whole |= _published(recipe)
    if whole != held.stored:
        place.write(folder / "study.json", json.dumps(whole))


def _published(recipe: Recipe) -> dict[str, Any]:
    """The files of published numbers that its tables name, so that the folder has all that a report needs."""
    tables = recipe.data.get("tables") or ()
    names = dict.fromkeys(table["published"] for table in tables if table.get("published"))
    texts = {}
    for name in names:
        with suppress(OSError, UnicodeDecodeError):
            if (file := published(name, Path(recipe.source).parent)) is not None:
                texts[name] = file.read_text(encoding="utf-8")
    return {"published": texts} if texts else {}


def described(folder: str | Path) -> dict[str, Any]:
    """What `run` wrote down about a study: name, recipe, cells."""
    home = place.inside(Path(folder))
    stored = place.read_json(home / "study.json")
    if not isinstance(stored, dict) or stored.get("format") != 1 or not _has_cells(stored):
        raise StudyError(
            f"{home} is not a study: it has no study.json that can be read.",
            "name the folder `deadhead run` was given",
        )
    return stored


def _has_cells(stored: Mapping[str, Any]) -> bool:
    cells = stored.get("cells")
    if not isinstance(stored.get("name"), str) or not isinstance(stored.get("recipe"), dict):
        return False
    if not is_recipe(stored["recipe"]):
        return False
    return isinstance(cells, list) and all(
        isinstance(cell, list)
        and len(cell) == 2
        and isinstance(cell[1], str)
        and is_labels(cell[0])
        for cell in cells
    )


def clean(folder: str | Path, *, dry: bool = False) -> tuple[int, int]:
    """Delete the trained models that no trial waits for; how many, and their bytes. `dry` only counts.

    Trials that are left or failed keep what they need. A study that is extended later trains what it needs again.
    """
    home = place.inside(Path(folder))
    study = described(home)
    try:
        trials = with_inputs(
            Recipe(name=str(study["name"]), data=study["recipe"]), fingerprints_of(study) or {}
        ).trials
    except Exception as problem:  # it was not checked again, and may be from anybody
        raise StudyError(
            f"the trials of {home} cannot be told from its study.json: {problem!r}.",
            "give the command it was run with again",
        ) from None
    with nullcontext() if dry else place.locked(home):
        known = records.states(home)
        found = shared.spare(
            home, trials, [trial for trial in trials if known.get(trial.id) != "done"]
        )
        total = sum(map(shared.size, found))
        for one in found if not dry else ():
            shared.drop(one)
    return len(found), total


def stop(folder: str | Path, *, now: bool = False) -> bool:
    """Ask the run that works on a study to stop; False if none does."""
    home = place.inside(Path(folder))
    if not place.is_running(home):
        return False
    place.write(home / "stop", "now\n" if now else "finish\n", durable=False)
    return True
