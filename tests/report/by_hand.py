"""Studies written by hand: a recipe and the records of its trials, so numbers can be checked."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from deadhead.report.check import load_recipe as load
from deadhead.studies.store.records import Record, write
from deadhead.studies.trial import Trial

DRAWN = """\
about: half of the heads, at random
steps: [prune, finetune, evaluate]
fixed: {model: a/model, source: en, splits: dev}
axes:
  task: [mnli, sst2]
  remove: {random: [0, 50]}
  draw: [0, 1, 2]
tables:
  - {title: Scores, rows: remove, columns: task, mean_over: draw, published: numbers.csv}
  - {title: Drops, kind: drop, rows: remove, columns: task, mean_over: draw}
"""
NUMBERS = """\
model,task,source,target,remove,percent,value
a/model,mnli,en,en,none,0,83.69
a/model,mnli,en,en,random 50,50,82.00
another/model,sst2,en,en,random 50,50,11.0
"""
# The scores of DRAWN by task, amount and draw.
SCORES: dict[tuple[str, int, int | None], float] = {
    ("mnli", 0, None): 0.80,
    ("sst2", 0, None): 0.90,
}
SCORES |= {("mnli", 50, 0): 0.70, ("mnli", 50, 1): 0.72, ("mnli", 50, 2): 0.74}
SCORES |= {("sst2", 50, 0): 0.88, ("sst2", 50, 1): 0.92, ("sst2", 50, 2): 0.90}

SEARCH = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de], splits: [dev, test]}
axes: {seed: [0]}
search: {lowest: 1..3, controls: [seeds, random]}
"""
HEADS = tuple(f"encoder.{layer}.{head}" for layer in range(2) for head in range(4))

Outcome = Callable[[Trial, Mapping[str, Any]], Record | None]


def study(folder, recipe, outcome, files=None):
    """The folder of a study whose trials came out as `outcome` says; None is a trial not run.

    files: published numbers, beside the recipe and kept in the study; by default NUMBERS.
    """
    files = {"numbers.csv": NUMBERS} if files is None else files
    home = folder / "study"
    (home / "records").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    loaded = load(folder / "recipe.yaml")
    cells = [[dict(cell.labels), cell.trial.id] for cell in loaded.cells]
    description = {
        "format": 1,
        "name": loaded.name,
        "recipe": dict(loaded.data),
        "cells": cells,
        "published": dict(files),
    }
    (home / "study.json").write_text(json.dumps(description), encoding="utf-8")
    written = set()
    for cell in loaded.cells:
        record = outcome(cell.trial, cell.labels)
        if record is not None and cell.trial.id not in written:
            written.add(cell.trial.id)
            write(record, home)
    return home


def done(trial, metrics, **fields):
    """The record of a trial that removed nothing."""
    return Record(trial=trial, state="done", removed=(), metrics=metrics, **fields)


def drawn(trial, labels):
    """The record of a trial of DRAWN."""
    remove = trial.get("remove")
    amount = remove["random"] if remove else 0
    score = SCORES[trial.get("task"), amount, trial.get("draw") if amount else None]
    removed = HEADS[trial.get("draw") :][:4] if amount else ()
    cost = {
        "finetune s": 10.0 - len(removed),
        "evaluate s": 1.0,
        "parameters": 1000,
        **({"parameters after": 600} if removed else {}),
    }
    versions, data = {"deadhead": "0", "torch": "2"}, {"en/train": "f00d"}
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics={"en/dev/accuracy": score, "en/dev/macro_f1": score / 2},
        cost=cost,
        versions=versions,
        data=data,
    )


# Scores of SEARCH on test by arm and k, and on dev; German is 0.1 below English.
TEST = {("full", 0): 0.70, ("lowest", 1): 0.71, ("lowest", 2): 0.74, ("lowest", 3): 0.69}
TEST |= {
    ("seeds", 1): 0.70,
    ("seeds", 2): 0.72,
    ("seeds", 3): 0.75,
    ("random", 1): 0.66,
    ("random", 2): 0.65,
    ("random", 3): 0.64,
}
DEV = {**dict.fromkeys(TEST, 0.5), ("lowest", 1): 0.6}


def searched(trial, labels):
    """The record of a trial of SEARCH."""
    at = (labels["arm"], labels["k"])
    metrics = {
        f"en/{split}/micro_f1": scores[at] for split, scores in (("test", TEST), ("dev", DEV))
    }
    metrics |= {
        f"de/{split}/micro_f1": scores[at] - 0.1 for split, scores in (("test", TEST), ("dev", DEV))
    }
    scores = {head: float(i) for i, head in enumerate(HEADS)}
    ranking = (
        {"ranking": {"method": "gradient", "languages": ["en"], "scores": scores}}
        if "rank" in trial.content
        else {}
    )
    removed = (
        HEADS[: labels["k"]]
        if labels["arm"] == "lowest"
        else HEADS[-labels["k"] :]
        if labels["arm"] == "random"
        else ()
    )
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics=metrics,
        cost={"finetune s": 3.0, "parameters": 100 - len(removed)},
        details=ranking,
    )


def cell(table, row, column):
    return dict(table["cells"][table["rows"].index(row)][table["columns"].index(column)])


MEASURED = (("before", 2.0), ("after", 1.5))  # nats of every head
