"""`clean` deletes trained models that no trial waits for, and a study can still be resumed and
extended."""

import shutil

import pytest
from small_study import stable_records
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.studies import clean, load, run

SMALL = ["data.examples=32", "targets=[de]", "finetune.scored=none", "rank={examples: 16}"]
SHORT = [*SMALL, "remove=[none, {lowest: 2}, {lowest: 4}]"]
LONG = [*SMALL, "remove=[none, {lowest: 2}, {lowest: 4}, {lowest: 6}]", "seed=0"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "s"
    assert run(load("smoke", LONG), folder, executor="serial").done == 4
    return folder


def kinds(study):
    """For each piece of shared work whether it is a ranking."""
    return sorted((folder / "ranking.json").is_file() for folder in (study / "shared").iterdir())


def test_a_finished_study_is_tidied_and_extended(whole, tmp_path):
    run(load("smoke", SHORT), tmp_path / "s", executor="serial")
    assert kinds(tmp_path / "s") == [False, True]
    models, size = clean(tmp_path / "s", dry=True)
    assert models == 1
    assert size > 4_000_000  # a million weights
    result = CliRunner().invoke(app, ["clean", str(tmp_path / "s")])
    assert result.exit_code == 0
    assert "1 trained model deleted" in result.stdout
    assert kinds(tmp_path / "s") == [True]
    assert clean(tmp_path / "s") == (0, 0)
    assert run(load("smoke", SHORT), tmp_path / "s", executor="serial").ran == 0
    assert run(load("smoke", LONG), tmp_path / "s", executor="serial").ran == 1
    longer, other = stable_records(tmp_path / "s"), stable_records(whole)
    assert {name: record["metrics"] for name, record in longer.items()} == {
        name: record["metrics"] for name, record in other.items()
    }
    assert kinds(tmp_path / "s") == [
        True
    ]  # the ranking was there: nothing was trained again for it


def test_what_a_trial_waits_for_is_kept(whole, tmp_path):
    study = tmp_path / "s"
    shutil.copytree(whole, study)
    recipe = load("smoke", LONG)
    full = next(trial for trial in recipe.trials if "remove" not in trial.content)
    (study / "records" / f"{full.id}.json").unlink()  # it starts from the trained model
    assert clean(study) == (0, 0)
    assert run(recipe, study, executor="serial").ran == 1
    assert clean(study)[0] == 1
    (study / "records" / f"{full.id}.json").unlink()
    assert run(recipe, study, executor="serial").ran == 1  # trained again, to the same numbers
    assert stable_records(study)[full.id]["metrics"] == stable_records(whole)[full.id]["metrics"]
