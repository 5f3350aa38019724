"""The heads that a study removed before training, removed after it: only cut, and repaired.

    python benchmarks/after_training.py RECIPE --task TASK [--seeds 0] [--data DIR] [--device cuda]
                                        [--set FIELD=VALUE ...] [--only ROW ...] [--examples 1000]
                                        --json FILE

For each seed, the whole model is trained once, as the study does it: by the steps of the recipe's
unpruned trial. Then each pruned trial with this seed is a row of the recipe's tables: exactly its
heads are removed from a copy of the trained model,

- "cut": as the recipe removes them, and nothing else;
- "repaired": cut, and the layers that lost something refitted on training examples, drawn with the
  seed, without any training.

Scores are accuracies on dev; `right` has a bit for each example of dev, packed and in hex. Rows
that a file has already are kept and not run again, and several processes may add to one file.
`--only "random 50" "layers top 3"` runs these rows alone.
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from machine import alone, now, rows_so_far, write_rows

from deadhead import discover, prune, strategies
from deadhead.layout import Head
from deadhead.shrinking import refit
from deadhead.studies import Trial, load, run_trial
from deadhead.studies.steps import models
from deadhead.studies.steps.state import State
from deadhead.studies.trial import Removal, label
from deadhead.tasks import batches
from deadhead.training.evaluation import predict

WHOLE, CUT, REPAIRED = "whole", "cut", "repaired"
TOKENS = 8192  # in a batch on a GPU
BATCH = 64  # examples on a CPU
Row = dict[str, Any]


def trials_of(options: argparse.Namespace, seed: int) -> tuple[Trial, list[Trial]]:
    """The unpruned trial of a task and a seed, and the pruned ones."""
    recipe = load(options.recipe, options.set)
    found = [t for t in recipe.trials if t.task == options.task and t.get("seed") == seed]
    pruned = [t for t in found if t.get("remove") is not None]
    whole = [t for t in found if t.get("remove") is None]
    if len(whole) != 1 or not pruned:
        raise SystemExit(f"expected one unpruned trial of {options.task}, seed {seed}, and others")
    names = dict.fromkeys(map(name_of, pruned))
    if unknown := {*options.only} - {*names}:
        raise SystemExit(f"no such rows: {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    return whole[0], [t for t in pruned if not options.only or name_of(t) in options.only]


def name_of(trial: Trial) -> str:
    """The row of the recipe's tables that a trial belongs to."""
    return str(label(trial.get("remove") or "none"))


def heads_of(trial: Trial, model: Any) -> list[Head]:
    """The heads that the step `prune` removes in this trial."""
    removal = Removal.parse(trial.get("remove"))
    assert removal is not None
    chosen = {"seed": trial.get("draw", 0), **removal.options}
    return sorted(strategies.choose(removal.strategy, discover(model), removal.amount, **chosen))


def trained(trial: Trial) -> State:
    """The unpruned trial behind its training: the model has the weights that the study scores."""
    state = State(run=run_trial)
    for at, step in enumerate(trial.protocol):
        state.at = at
        step.run(state, trial)
        if step.trains:
            state.model.eval()
            return state
    raise SystemExit("the recipe trains nothing")


class Removals:
    """One trained model, its dev data and its calibration data."""

    def __init__(self, trial: Trial, device: str, examples: int):
        self.trial, self.device = trial, device
        begin = now(device)
        self.state = trained(trial)
        self.seconds = now(device) - begin
        self.dev = models.encoded(self.state, trial, "dev", languages=list(trial.targets))
        data = models.encoded(self.state, trial, "train", examples=examples)
        on_gpu = device != "cpu"
        size = {"tokens": TOKENS} if on_gpu else {"size": BATCH, "sort": True}
        self.calibration = list(batches(data, **size))
        self.examples = len(data)

    def whole(self) -> Row:
        facts = {**place(self.trial, WHOLE), "share": 0.0, "seconds": self.seconds}
        epochs = [epoch["accuracy"] for epoch in self.state.epochs if "accuracy" in epoch]
        return self._row(facts | {"accuracies": epochs}, self.state.model)

    def removed(self, trial: Trial, treatment: str) -> Row:
        """Remove the heads of a trial from a copy of the model."""
        model = copy.deepcopy(self.state.model)
        heads = heads_of(trial, model)
        share = round(len(heads) / len(discover(model)), 4)
        facts: Row = {**place(trial, treatment), "share": share}
        begin = now(self.device)
        if treatment == CUT:
            prune(model, heads, **(trial.get("prune") or {}))
        else:
            report = refit(model, self.calibration, heads, progress=False)
            facts["candidates"] = [layer.candidate for layer in report.layers]
            facts["notes"] = list(report.notes)
            facts["examples"] = self.examples
        facts["seconds"] = now(self.device) - begin
        return self._row(facts, model)

    def _row(self, facts: Row, model: Any) -> Row:
        names = predict(model, self.dev).named()
        right = np.array([n == r.labels[0] for n, r in zip(names, self.dev.data.rows, strict=True)])
        scored = {"accuracy": float(right.mean()), "right": np.packbits(right).tobytes().hex()}
        return {**facts, "seconds": round(facts["seconds"], 3), **scored}


def place(trial: Trial, treatment: str) -> Row:
    """Return the key of a row: no two rows of a file have the same."""
    return {
        "task": trial.task,
        "seed": trial.get("seed"),
        "epochs": trial.get("finetune")["epochs"],
        "row": name_of(trial),
        "draw": trial.get("draw"),
        "treatment": treatment,
    }


def new_rows(options: argparse.Namespace, seed: int) -> Iterator[Row]:
    """The rows that the file does not have; without any, nothing is trained."""
    whole, pruned = trials_of(options, seed)
    wanted = [(whole, WHOLE), *product(pruned, (CUT, REPAIRED))]
    there = rows_so_far(options.json)
    left = [w for w in wanted if not any(place(*w).items() <= row.items() for row in there)]
    if not left:
        return
    removals = Removals(whole, options.device, options.examples)
    for trial, treatment in left:
        yield removals.whole() if trial is whole else removals.removed(trial, treatment)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--task", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data", help="the folder of the data, for a recipe that names none")
    parser.add_argument("--device", default=models.device())
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW")
    parser.add_argument("--examples", type=int, default=1000, help="to repair with")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    if options.data is not None:
        os.environ["DEADHEAD_DATA"] = options.data
    if options.device != models.device():
        raise SystemExit(f"a study trains on {models.device()} here")
    for seed in options.seeds:
        for row in new_rows(options, seed):
            shown = {name: value for name, value in row.items() if name != "right"}
            print(*shown.values(), flush=True)
            with alone(options.json):
                write_rows(options.json, options.device, [*rows_so_far(options.json), row])


if __name__ == "__main__":
    main()
