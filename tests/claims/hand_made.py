"""Study folders written by hand: cells, fields and scores in, a folder as `deadhead run` leaves it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deadhead.studies.records import Record, write
from deadhead.studies.trial import settle

STEPS = ["finetune", "rank", "restart", "prune", "finetune", "evaluate"]


def study(folder: Path, fixed: Mapping[str, Any], cells: Iterable[Mapping[str, Any]], steps: list[str] = STEPS) -> Path:
    """Make a study. A cell has `labels`, and of `fields`, `metrics`, `details`, `state` what it needs."""
    (folder / "records").mkdir(parents=True)
    listed = []
    for cell in cells:
        labels = dict(cell["labels"])
        fields = {**fixed, **{name: value for name, value in labels.items() if name not in ("arm", "k")}, **cell.get("fields", {})}
        trial = settle(steps, fields)
        listed.append([labels, trial.id])
        state = cell.get("state", "done")
        if state != "left":
            write(Record(trial, state, metrics=cell.get("metrics", {}), details=cell.get("details", {})), folder)
    whole = {"format": 1, "name": "by-hand", "recipe": {"steps": steps, "fixed": dict(fixed)}, "cells": listed}
    (folder / "study.json").write_text(json.dumps(whole))
    return folder
