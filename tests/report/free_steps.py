"""A study whose steps cost nothing, with all that a page shows, and one failure."""

from deadhead.studies import load, run
from deadhead.studies.execution.one_trial import run_trial
from deadhead.studies.trial import digest

WORK = "free_steps:work"
HEADS = [f"encoder.{layer}.{index}" for layer in range(3) for index in range(4)]
RECIPE = """\
about: a study that costs nothing
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: nobody/nothing, source: en, task: pos, targets: [de, ar]}
axes:
  remove: [none, {lowest: [2, 6]}, {highest: [6]}]
  seed: [0, 1]
tables:
  - {title: Scores, rows: remove, columns: language, mean_over: seed}
"""


def number(*parts):
    return int(digest([str(part) for part in parts])[:8], 16) / 2**32


def finetune(state, trial):
    state.epochs += [
        {"step": state.at, "number": n, "loss": number(trial.content, n) / n} for n in (1, 2, 3)
    ]


def rank(state, trial):
    scores = {head: number(head, trial.get("seed")) for head in HEADS}
    state.details["ranking"] = {"method": "gradient", "languages": ["en"], "scores": scores}


def restart(state, trial):
    state.epochs.clear()


def prune(state, trial):
    strategy, amount = next(iter(trial.get("remove").items()))
    if strategy == "highest" and trial.get("seed") == 1:
        raise ValueError("no heads today")
    order = sorted(HEADS, key=state.details["ranking"]["scores"].__getitem__)
    state.removed = order[:amount] if strategy == "lowest" else order[-amount:]


def evaluate(state, trial):
    for language in trial.get("targets"):
        for split in trial.get("splits"):
            state.metrics[f"{language}/{split}/accuracy"] = round(
                number(trial.content, language, split), 4
            )
            state.metrics[f"{language}/{split}/micro_f1"] = round(
                number(trial.content, language, split, "f1"), 4
            )


STEPS = {
    "finetune": finetune,
    "rank": rank,
    "restart": restart,
    "prune": prune,
    "evaluate": evaluate,
}


def work(trial, folder, keep, tell):
    return run_trial(trial, folder, keep, tell, steps=STEPS)


def made_study(folder, *overrides):
    """Run it into a folder; again with more seeds to add to it."""
    file = folder.parent / "free.yaml"
    file.write_text(RECIPE)
    run(load(file, overrides), folder, executor="serial", work=WORK)
    return folder
