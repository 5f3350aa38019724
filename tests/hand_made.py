"""Study folders written by hand: cells, fields and scores in, a folder as `deadhead run` leaves
it out.
"""

import json
from unittest.mock import patch

from deadhead.studies.store.records import Record, write
from deadhead.studies.trial import settle

STEPS = ["finetune", "rank", "restart", "prune", "finetune", "evaluate"]
PARTS = ("metrics", "details", "removed", "cost")


def study(folder, fixed, cells, steps=STEPS, name="by-hand", **recipe):
    """Make a study. A cell has `labels`, and of `fields`, `metrics`, `details`, `removed`,
    `cost`, `state` what it needs.
    """
    (folder / "records").mkdir(parents=True)
    listed = []
    for cell in cells:
        labels = dict(cell["labels"])
        fields = {
            **fixed,
            **{name: value for name, value in labels.items() if name not in ("arm", "k")},
            **cell.get("fields", {}),
        }
        trial = settle(steps, fields)
        listed.append([labels, trial.id])
        state = cell.get("state", "done")
        if state != "left":
            write(
                Record(
                    trial=trial, state=state, **{part: cell[part] for part in PARTS if part in cell}
                ),
                folder,
            )
    described = {"steps": steps, "fixed": dict(fixed), **recipe}
    (folder / "study.json").write_text(
        json.dumps({"format": 1, "name": name, "recipe": described, "cells": listed})
    )
    return folder


def of_recipe(folder, recipe, outcome):
    """The study of a recipe as if it had run: `outcome` gives the result of each cell's trial."""
    (folder / "records").mkdir(parents=True)
    done: set[str] = set()
    with patch("os.fsync"):  # thousands of records that nobody needs after a crash
        for cell in recipe.cells:
            if cell.trial.id not in done:
                done.add(cell.trial.id)
                write(Record(trial=cell.trial, state="done", **outcome(cell)), folder)
    cells = [[dict(cell.labels), cell.trial.id] for cell in recipe.cells]
    (folder / "study.json").write_text(
        json.dumps({"format": 1, "name": recipe.name, "recipe": dict(recipe.data), "cells": cells})
    )
    return folder
