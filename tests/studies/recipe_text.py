"""The text of a recipe, and the message that refuses a wrong one."""

import pytest

from deadhead.report.check import load_recipe as load
from deadhead.studies.recipe.yaml import RecipeError

TABLE4 = """\
about: random pruning of BERT on four GLUE tasks
steps: [prune, finetune, evaluate]
fixed:
  model: bert-base-uncased
  source: en
  finetune: {preset: weak-link-bert, epochs: 10}
axes:
  task: [mnli, qqp, qnli, sst2]
  remove: {random: [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]}
  draw: [0, 1, 2]
tables:
  - {title: Table 4, rows: remove, columns: task, mean_over: draw}
scales:
  mini: {fixed.model: world/encoder, axes.task: [sst2], finetune.epochs: 1}
"""


def refusal(file, text, *overrides):
    file.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load(file, overrides)
    return str(caught.value)
