"""Studies of the papers' recipes with random numbers, and what their pages show."""

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deadhead.report.check import load_recipe
from deadhead.report.page.content import content
from deadhead.tasks import task_of
from hand_made import of_recipe

SHAPES = {"wmt14": (("encoder", "cross", "decoder"), 6, 8)}  # by task: blocks, layers, heads
BERT = (("encoder",), 12, 12)


@cache
def page_content(name):
    """The content of the page of a finished study of a recipe."""
    rng = random.Random(name)
    with TemporaryDirectory() as folder:
        home = of_recipe(Path(folder) / "s", load_recipe(name), lambda cell: _result(cell, rng))
        return content(home)


def _result(cell, rng):
    trial, task = cell.trial, task_of(cell.trial.get("task"))
    blocks, layers, width = SHAPES.get(task.name, BERT)
    heads = [f"{b}.{layer}.{h}" for b in blocks for layer in range(layers) for h in range(width)]
    language, remove = trial.get("source"), trial.get("remove")
    result: dict[str, Any] = {
        "metrics": {
            f"{target}/{split}/{task.metric}": rng.uniform(0.4, 0.9)
            for target in trial.get("targets", ())
            for split in trial.get("splits", ())
        },
        "removed": rng.sample(heads, len(heads) // 4) if remove else [],
    }
    if trial.get("rank"):
        scores = {head: index + 40 * rng.random() for index, head in enumerate(heads)}
        ranking = {"method": "gradient", "languages": [language], "scores": scores}
        result["details"] = {"ranking": ranking}
    return result
