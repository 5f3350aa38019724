"""Studies of a few records that hold all that a reader looks at, to be damaged field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deadhead.studies import load
from deadhead.studies.recipe.load import Recipe
from deadhead.studies.store.records import Record, write
from deadhead.studies.study import _describe
from deadhead.studies.trial import Trial, digest

HEADS = tuple(f"encoder.{layer}.{head}" for layer in range(3) for head in range(4))
RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, measure, evaluate]
fixed: {model: world/encoder, task: pos, targets: [en, de], splits: [dev, test], measure: [entropy, weights, embeddings],
        data: {root: world, examples: 32}, finetune: {epochs: 2}, rank: {method: gradient}}
axes: {source: [en, de], seed: [0]}
search: {lowest: 1..2, controls: [random]}
tables:
  - {title: Scores, rows: remove, columns: language, mean_over: seed}
  - {title: Search, kind: search, rows: [source, target], columns: setting}
figures:
  - {title: Curve, kind: curve, x: k}
  - {title: Heads, kind: heads, show: ranking}
  - {title: Entropy, kind: heads, show: entropy_change}
  - {title: Removed, kind: heads, show: removed}
  - {title: Alike, kind: similarity}
  - {title: Points, kind: points}
  - {title: Cost, kind: cost}
  - {title: Epochs, kind: epochs}
  - {title: Layers, kind: layers, show: weights}
  - {title: Gains, kind: gains}
"""


def number(*parts: object) -> float:
    return int(digest([str(part) for part in parts])[:8], 16) / 2**32


def record_of(trial: Trial) -> Record:
    """A record with every part, its numbers made from the trial's content."""
    stages = {stage: _measures(trial, stage) for stage in ("before", "first", "after")}
    removed = HEADS[: next(iter((trial.get("remove") or {"": 0}).values()))]
    places = [f"{lang}/{split}" for lang in ("en", "de") for split in ("dev", "test")]
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics={
            f"{place}/{metric}": number(trial.id, place, metric)
            for place in places
            for metric in ("micro_f1", "accuracy", "macro_f1")
        },
        epochs=(
            {"step": 0, "number": 1, "loss": 0.5, "micro_f1": 0.4},
            {"step": 0, "number": 2, "loss": 0.25, "micro_f1": None},
        ),
        cost={
            "finetune s": 1.5,
            "heads before": 12,
            "parameters": 1000,
            "parameters after": 900,
            "memory MiB": 7,
            "reused": "abc",
        },
        versions={"deadhead": "0", "torch": "2"},
        data={place: digest(place) for place in places},
        shared={"finetune": "abc"},
        details={
            "ranking": {
                "method": "gradient",
                "languages": [trial.get("source")],
                "scores": {h: number(trial.id, h) for h in HEADS},
            },
            "measures": stages,
            "shortfalls": {"en/train": {"expected": 32, "got": 30}},
            "damaged work": ["x"],
            "data notes": {"en/train": {"dropped": 1}},
            "best epoch": 1,
        },
    )


def _measures(trial: Trial, stage: str) -> dict[str, Any]:
    numbers = {
        name: {head: number(trial.id, stage, name, head) for head in HEADS}
        for name in ("entropy", "weights")
    }
    points = {"en": [[0.0, 1.0], [1.0, 0.5]], "de": [[2.0, 1.0]]}
    centroids = {"languages": ["en", "de"], "distances": [[0.0, 1.0], [1.0, 0.0]]}
    return {**numbers, "embeddings": {"points": points, "silhouette": 0.25, "centroids": centroids}}


def whole_study(folder: Path) -> Recipe:
    """Write the study; its recipe."""
    file = folder.parent / "whole.yaml"
    file.write_text(RECIPE)
    recipe = load(file)
    (folder / "records").mkdir(parents=True)
    (folder / "shared").mkdir()
    _describe(recipe, folder)
    for trial in recipe.trials:
        write(record_of(trial), folder)
    return recipe


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a record; of lists and of the mappings by head or language the first alone."""
    if path:
        yield path
    if isinstance(value, dict):
        same_kind = len(value) > 1 and (
            any("/" in name for name in value) or set(value) <= set(HEADS)
        )
        for name in list(value)[: 1 if same_kind else None]:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def changed(stored: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value in a place."""
    copy = json.loads(json.dumps(stored))
    here = copy
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return copy
