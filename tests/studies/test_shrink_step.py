"""The step `shrink`: what its field may be, which training trials share, what a record has."""

import pytest

from deadhead.layout import Head
from deadhead.studies import load, read, run
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.steps.shrink import Shrinking

SMALL = ["data.examples=64", "targets=[en]", "finetune.epochs=1"]
ARMS = (
    "shrink=[none, {heads: 0.5}, {heads: 0.5, repair: none}, "
    "{heads: 0.5, method: random, seed: 3}, {heads: 0.5, neurons: 0.25}]"
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    recipe = load("shrink", [*SMALL, ARMS])
    assert run(recipe, folder / "s", executor="serial").done == len(recipe.trials) == 5
    return [read(folder / "s", trial.id) for trial in recipe.trials]


def test_the_record_has_choice_losses_seconds_and_candidates(records):
    whole, half, cut, drawn, both = records
    assert "shrink" not in whole.details
    assert whole.removed == ()
    for record in (half, cut, drawn, both):
        report = record.details["shrink"]
        assert len(record.removed) == 20
        assert list(record.removed) == report["choice"]["heads"]
        assert all(Head.parse(name).layer < 5 for name in record.removed)
        assert set(report["losses"]) == {"whole", "cut", "refitted"}
        assert {"choose s", "refit s", "measure s", "shrink s"} <= set(record.cost)
        assert record.cost["parameters after"] < whole.cost["parameters"]
        assert record.cost["heads before"] == 40
    assert set(half.details["shrink"]["tried"]) == {"reconstruction", "fisher"}
    assert drawn.details["shrink"]["tried"] == {}
    assert half.removed != drawn.removed
    losses = [record.details["shrink"]["losses"] for record in (half, cut)]
    assert losses[0]["whole"] == losses[1]["whole"]  # one training for all of them
    assert losses[1]["cut"] == pytest.approx(losses[1]["refitted"], rel=1e-5)
    assert {row["candidate"] for row in cut.details["shrink"]["layers"]} == {"nothing"}
    errors = [row["errors"] for row in half.details["shrink"]["layers"] if row["errors"]]
    assert any(after < before for before, after in errors)
    assert both.details["shrink"]["sizes"]["neurons"] == [1920, 1440]
    assert whole.metrics != cut.metrics  # several scores of all words, without half of the heads


def test_the_plan_shares_the_training():
    recipe = load("shrink", SMALL)
    trials = recipe.trials
    assert len(trials) == 11
    assert trials[0].steps == ("finetune", "evaluate")
    assert {trial.steps for trial in trials[1:]} == {("finetune", "shrink", "evaluate")}
    assert len({trial.keys[0] for trial in trials}) == 1
    assert len({trial.id for trial in trials}) == 11
    reads = set(trials[1].reads())
    assert ("pos", "en", "train") in reads


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("half", "expected none, or a target"),
        ("{heads: 2.5}", "`heads` expects a share"),
        ("{heads: 0.5, macs: 0.5}", "got heads and macs"),
        ("{method: fisher}", "expected a target, got none"),
        ("{heads: 0.5, method: fsher}", "Did you mean 'fisher'"),
        ("{heads: 0.5, repair: hope}", "no repair 'hope'"),
        ("{heads: 0.5, compensation: hope}", "no compensation 'hope'"),
        ("{heads: 0.5, repair: none, compensation: none}", "the old name of `repair`"),
        ("{heads: 0.5, spit: dev}", "Did you mean 'split'"),
        ("{heads: 0.5, split: all}", "no split 'all'"),
        ("{heads: 0.5, examples: 0}", "expected a whole number from 1"),
        ("{heads: 0.5, on: 32x128}", r"such as \[32, 128\]"),
        ("{speedup: 1.5}", "depends on the machine"),
        ("{neurons: 0.5, method: gradient}", "gradient chooses no neurons"),
    ],
)
def test_mistakes_are_found_before_anything_runs(value, message):
    with pytest.raises(RecipeError, match=message):
        load("shrink", [*SMALL, f"shrink={value}"])


def test_the_word_of_older_recipes_means_the_same():
    """It stays in the content of a trial, and so in its id."""
    changes = [*SMALL, "shrink={heads: 0.5, compensation: mean}"]
    (trial,) = load("shrink", changes).trials
    assert trial.get("shrink") == {"heads": 0.5, "compensation": "mean"}
    assert Shrinking.parse(trial.get("shrink")).options == {"heads": 0.5, "repair": "mean"}
