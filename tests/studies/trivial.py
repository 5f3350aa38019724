"""Steps that cost nothing, for testing the engine: numbers made from the trial's own content."""

import os
import time
from pathlib import Path

from deadhead.errors import HeadError
from deadhead.studies.execution.one_trial import run_trial
from deadhead.studies.trial import digest


def number(*parts):
    return int(digest([str(part) for part in parts])[:8], 16) / 2**32


LOSES = 99  # the draw that loses the GPU
STICKS = (54, 55)  # draws that hang: the first time, every time


def _first(state, trial):
    """Whether this step of the trial is done for the first time."""
    mark = Path(os.environ["TRIVIAL_MARKS"]) / f"{trial.id}-{state.at}"
    first = not mark.exists()
    mark.touch()
    return first


def finetune(state, trial):
    _count(state, trial, "finetune")
    state.epochs.append(
        {
            "epoch": 1,
            "loss": number(trial.languages(state.at), trial.seed_of(state.at), state.removed),
        }
    )


def rank(state, trial):
    _count(state, trial, "rank")
    state.details["order"] = sorted(
        range(8), key=lambda head: number(head, trial.get("seed"), state.epochs)
    )


def restart(state, trial):
    state.epochs.clear()


def prune(state, trial):
    remove = trial.get("remove")
    strategy, amount = next(iter(remove.items()))
    if strategy == "random" and amount == 66:
        raise ValueError("no heads today")
    if strategy == "random" and amount == 67:
        raise HeadError("expected 8 heads.", "name other heads")
    if strategy == "random" and amount == 77:
        os.kill(os.getpid(), 9)
    if strategy == "random" and amount == LOSES:
        import torch

        raise torch.AcceleratorError(
            "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCompile with ..."
        )
    if strategy == "random" and amount in STICKS and (_first(state, trial) or amount == STICKS[1]):
        time.sleep(3600)
    order = state.details.get("order") or list(range(8))
    state.removed = [
        f"encoder.0.{head}"
        for head in (order[:amount] if strategy == "lowest" else order[-amount:])
    ]


def evaluate(state, trial):
    for language in trial.get("targets"):
        for split in trial.get("splits"):
            state.metrics[f"{language}/{split}/micro_f1"] = number(
                trial.content, state.removed, state.epochs, language, split
            )
    time.sleep(float(os.environ.get("TRIVIAL_SECONDS", "0")))


def _count(state, trial, step):
    """Leave a mark for every time the step is done, so that tests can see what was computed
    twice."""
    marks = os.environ.get("TRIVIAL_MARKS")
    if marks:
        with open(Path(marks) / f"{step}-{trial.keys.get(state.at, trial.id)}", "a") as file:
            file.write("x")


STEPS = {
    "finetune": finetune,
    "rank": rank,
    "restart": restart,
    "prune": prune,
    "evaluate": evaluate,
}


def work(trial, folder, keep, tell):
    tell("at it")
    return run_trial(trial, folder, keep, tell, steps=STEPS)
