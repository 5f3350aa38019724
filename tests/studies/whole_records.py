"""Studies of a few records that hold all that a reader looks at, to be damaged field by field."""

import json

from trivial import number

from deadhead.studies import load
from deadhead.studies.store.records import Record, write
from deadhead.studies.study import _describe
from deadhead.studies.trial import digest

HEADS = tuple(f"encoder.{layer}.{head}" for layer in range(3) for head in range(4))
RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: world/encoder, task: pos, targets: [en, de], splits: [dev, test],
        data: {root: world, examples: 32}, finetune: {epochs: 2}, rank: {method: gradient}}
axes: {source: [en, de], seed: [0]}
search: {lowest: 1..2, controls: [random]}
tables:
  - {title: Scores, rows: remove, columns: language, mean_over: seed}
  - {title: Search, kind: search, rows: [source, target], columns: setting}
figures:
  - {title: Curve, kind: curve, x: k}
  - {title: Heads, kind: heads, show: ranking}
  - {title: Removed, kind: heads, show: removed}
  - {title: Alike, kind: similarity}
  - {title: Cost, kind: cost}
  - {title: Epochs, kind: epochs}
"""


def record_of(trial):
    """A record whose numbers are made from the trial's content."""
    places = [f"{lang}/{split}" for lang in ("en", "de") for split in ("dev", "test")]
    scores = {head: number(trial.id, head) for head in HEADS}
    ranking = {"method": "gradient", "languages": [trial.get("source")], "scores": scores}
    return Record(
        trial=trial,
        state="done",
        removed=HEADS[: next(iter((trial.get("remove") or {"": 0}).values()))],
        metrics={f"{place}/micro_f1": number(trial.id, place) for place in places},
        epochs=({"step": 0, "number": 1, "loss": 0.5, "micro_f1": None},),
        cost={"finetune s": 1.5, "heads before": 12, "parameters": 1000, "reused": "abc"},
        versions={"deadhead": "0", "torch": "2"},
        data={place: digest(place) for place in places},
        shared={"finetune": "abc"},
        details={"ranking": ranking, "shortfalls": {"en/train": {"expected": 32, "got": 30}}},
    )


def whole_study(folder):
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


def places(value, path=()):
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


def changed(stored, path, value):
    """A copy with another value in a place."""
    copy = json.loads(json.dumps(stored))
    here = copy
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return copy
