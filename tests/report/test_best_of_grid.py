"""A grid search marks the best cell of each task, and its finding names the settings."""

import pytest
from by_hand import cell, study

from deadhead.report.check import load_recipe
from deadhead.report.page.content import content
from deadhead.report.tables.text import to_latex
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.store.records import Record

GRID = """\
steps: [finetune, evaluate]
fixed: {model: a/model, source: en, splits: dev}
axes:
  task: [mnli, sst2]
  finetune.rate: [2e-5, 5e-5]
  finetune.batch: [8, 16]
tables:
  - {title: Grid, rows: [task, finetune.rate], columns: finetune.batch, \
best: [finetune.rate, finetune.batch]}
"""
# by rate and batch
ACCURACIES = {
    "mnli": {(2e-5, 8): 0.81, (2e-5, 16): 0.80, (5e-5, 8): 0.84, (5e-5, 16): 0.79},
    "sst2": {(2e-5, 8): 0.90, (2e-5, 16): 0.93, (5e-5, 8): 0.92, (5e-5, 16): 0.93},
}


def accuracy(trial, labels):
    settings = trial.get("finetune")["rate"], trial.get("finetune")["batch"]
    score = ACCURACIES[trial.get("task")][settings]
    return Record(trial=trial, state="done", metrics={"en/dev/accuracy": score})


def test_the_best_cell_of_each_task(tmp_path):
    page = content(study(tmp_path, GRID, accuracy, {}))
    (table,) = page["tables"]
    marked = [
        (*row, *column)
        for row, cells in zip(table["rows"], table["cells"], strict=True)
        for column, one in zip(table["columns"], cells, strict=True)
        if one["mark"]
    ]
    assert marked == [("mnli", 5e-5, 8), ("sst2", 2e-5, 16)]
    assert cell(table, ["mnli", 5e-5], [8])["mark"] == "best"
    text = (
        "The best of the grid: mnli 84.00 with rate 5e-05 and batch 8; "
        "sst2 93.00 with rate 2e-05 and batch 16, the first of 2 equal ones."
    )
    assert page["findings"][0] == text
    assert text in table["note"]
    latex = to_latex(table)
    assert r"\textbf{84.00}" in latex
    assert "Bold: best." in latex


def test_the_axes_are_those_of_the_table(tmp_path):
    (tmp_path / "r.yaml").write_text(GRID.replace("best: [finetune.rate", "best: [model"))
    with pytest.raises(RecipeError, match=r"best: expected axes of rows or columns, got 'model'"):
        load_recipe(tmp_path / "r.yaml")
