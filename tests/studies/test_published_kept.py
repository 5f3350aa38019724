"""The published tables that a recipe names are kept in its study, so that a page can be made of
the folder alone."""

import json

from deadhead.papers.catalogue import published_files
from deadhead.studies import load
from deadhead.studies.store.folder import prepare
from deadhead.studies.study import _describe

RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: mnli, source: en}
axes: {remove: [none, {random: 50}]}
tables:
  - {title: Theirs, rows: remove, published: weak-link/table1.csv, where: {strategy: [none,
  random]}}
  - {title: Ours, rows: remove, published: own.csv}
"""


def test_of_a_built_in_recipe_and_beside_the_recipe(tmp_path):
    (tmp_path / "own.csv").write_text("remove,value\nnone,1.5\n")
    (tmp_path / "weak-link").mkdir()
    (tmp_path / "weak-link" / "table1.csv").write_text(
        "not read: a name with a folder is that of a built-in recipe\n"
    )
    (tmp_path / "mine.yaml").write_text(RECIPE)
    study = prepare(tmp_path / "study")
    _describe(load(tmp_path / "mine.yaml"), study)
    kept = json.loads((study / "study.json").read_text())["published"]
    theirs = published_files()["weak-link/table1.csv"].read_text(encoding="utf-8")
    assert kept == {"weak-link/table1.csv": theirs, "own.csv": "remove,value\nnone,1.5\n"}
