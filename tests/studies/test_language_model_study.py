"""A study of a decoder on plain text: no languages, windows as examples, and lower scores are
better."""

import json

import pytest

import tiny_decoders
from deadhead.errors import DataError, DeadheadError
from deadhead.report.tables.build import tables
from deadhead.results import Study
from deadhead.studies import load, run

RECIPE = """
about: "a decoder on plain text"
steps: [finetune, rank, prune, evaluate]
fixed:
  model: {model}
  task: lm
  data: {{examples: 40, max_length: 16{data}}}
  splits: [test]
  rank: {{method: gradient, split: dev}}
  finetune: {{epochs: 1, rate: 1e-3, batch: 8}}
axes:
  remove: [none, {{lowest: 2}}, {{highest: 2}}]
tables:
  - {{title: Scores, rows: remove, columns: language}}
  - {{title: Drop, kind: drop, rows: remove, columns: language}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    tiny_decoders.saved(folder / "decoder")
    file = folder / "recipe.yaml"
    file.write_text(RECIPE.format(model=folder / "decoder", data=", root: world"))
    return file


@pytest.fixture(scope="module")
def study(recipe):
    result = run(load(recipe), recipe.parent / "study", executor="serial")
    records = [json.loads(f.read_text()) for f in (recipe.parent / "study/records").glob("*.json")]
    assert (result.done, [record["error"] for record in records]) == (3, [None] * 3)
    return recipe.parent / "study"


def test_trials_have_no_language(study):
    records = [json.loads(file.read_text()) for file in (study / "records").glob("*.json")]
    for record in records:
        assert record["trial"]["source"] == "text"
        assert {*record["metrics"]} == {
            f"text/test/{name}"
            for name in ("perplexity", "word_perplexity", "byte_perplexity", "next_token_accuracy")
        }
        assert record["epochs"][0]["perplexity"] > 1
        assert "shortfalls" not in record["details"]
        notes = record["details"]["data notes"]["text/train"]
        assert notes["windows left out at random"] > 0


def test_a_rise_of_the_perplexity_is_a_loss(study):
    scores, drops = tables(study)
    assert scores["note"].startswith("Perplexity on the test set (per token; lower is better).")
    unpruned, *pruned = (row[0]["ours"] for row in scores["cells"])
    losses = [row[0]["ours"] for row in drops["cells"]][1:]
    for value, loss in zip(pruned, losses, strict=True):
        assert value != unpruned
        assert loss == pytest.approx(100 * (value - unpruned) / unpruned, rel=1e-3)
    assert "lower is better" in scores["note"]
    removals = Study.open(study).removals
    assert [removal.loss > 0 for removal in removals] == [value > unpruned for value in pruned]


def test_what_a_recipe_may_not_say(recipe, tmp_path):
    text = recipe.read_text()
    for line, message in (
        ("  source: en\n", "leave `source` out"),
        ("  targets: [en]\n", "leave `targets` out"),
    ):
        (tmp_path / "wrong.yaml").write_text(text.replace("  task: lm\n", f"  task: lm\n{line}"))
        with pytest.raises(DeadheadError, match=message):
            load(tmp_path / "wrong.yaml")
    (tmp_path / "both.yaml").write_text(
        text.replace("  task: lm\n", "").replace("axes:\n", "axes:\n  task: [lm, pos]\n")
    )
    with pytest.raises(DeadheadError, match="a recipe of its own"):
        load(tmp_path / "both.yaml")


def test_one_file_cannot_be_all_splits(recipe, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(tiny_decoders.TEXT)
    (tmp_path / "recipe.yaml").write_text(recipe.read_text().replace(", root: world", ""))
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "text.txt"))
    with pytest.raises(DataError, match="is one file, and serves as"):
        run(load(tmp_path / "recipe.yaml"), tmp_path / "study", executor="serial")
