"""A model on the hub can be named with a revision, and a study keeps to the commit it began
with."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.errors import FolderError
from deadhead.files.hub import split
from deadhead.heads import load, prune, save
from deadhead.heads.model_files import folder_of
from deadhead.studies.fields import MODEL
from deadhead.studies.inputs import _hub_revision, attached, fingerprints
from deadhead.studies.steps.models import model_of
from deadhead.studies.trial import Trial
from tiny_models import answers, apart, build

NAME, FIRST, SECOND = "someone/tiny-model", "1" * 40, "2" * 40
MODELS = {FIRST: build("bert"), SECOND: prune(build("bert", seed=3), ["encoder.0.1"])}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's cache with two commits of one model: `main` is the second, the tag `old` the
    first."""
    home = tmp_path / "hub" / f"models--{NAME.replace('/', '--')}"
    for commit, model in MODELS.items():
        save(model, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(SECOND)
    (home / "refs" / "old").write_text(FIRST)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    _hub_revision.cache_clear()
    monkeypatch.chdir(tmp_path)
    return home


@pytest.mark.parametrize(
    ("revision", "commit"), [("", SECOND), ("@main", SECOND), ("@old", FIRST), (f"@{FIRST}", FIRST)]
)
def test_a_model_of_this_revision_is_loaded(revision, commit, cache):
    loaded = load(f"{NAME}{revision}").eval()
    assert apart(answers(MODELS[commit]), answers(loaded)) == 0
    assert folder_of(f"{NAME}{revision}") == cache / "snapshots" / commit


def test_a_saved_copy_includes_the_files_of_that_revision(cache):
    for commit in MODELS:
        (cache / "snapshots" / commit / "LICENSE").write_text(commit)
    small = save(load(f"{NAME}@old"), "small")
    assert (small / "LICENSE").read_text() == FIRST
    card = (small / "README.md").read_text()
    assert f"`{NAME}@old`" in card
    assert f"base_model: {NAME}\n" in card


def test_the_command_line_takes_one(cache):
    printed = [
        CliRunner().invoke(app, ["heads", f"{NAME}{revision}", "--json"])
        for revision in ("", "@old")
    ]
    assert [json.loads(result.stdout)["heads"] for result in printed] == [7, 8]


def test_a_study_keeps_to_the_commit_it_began_with(cache):
    trial = Trial({"model": NAME, "task": "pos", "data": {"root": "world"}, "steps": []})
    known = fingerprints([trial])
    assert list(known.values()) == [SECOND]
    begun = attached(trial, known)
    (cache / "refs" / "main").write_text(FIRST)  # the hub has a newer one
    assert model_of(begun) == f"{NAME}@{SECOND}"
    assert apart(answers(MODELS[SECOND]), answers(load(model_of(begun)).eval())) == 0
    assert fingerprints([Trial({**trial.content, "model": f"{NAME}@old"})]) == {
        json.dumps(["model", f"{NAME}@old"]): FIRST
    }
    elsewhere = f"{NAME}@{'3' * 40}"  # not here: the commit says all the same what it is
    assert fingerprints([Trial({**trial.content, "model": elsewhere})]) == {
        json.dumps(["model", elsewhere]): "3" * 40
    }


def test_a_revision_that_is_not_there_is_an_error(cache):
    with pytest.raises(FolderError, match="expected a model that can be loaded"):
        load(f"{NAME}@{'3' * 40}")
    for name in (f"{NAME}@", f"{NAME}@ x"):
        with pytest.raises(FolderError, match="expected a commit, a branch or a tag"):
            load(name)
        assert list(MODEL.check(name))


def test_folders_may_have_an_at_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(build("bert"), "model@home")
    assert load("model@home").config.num_hidden_layers
    assert split("model@home") == ("model@home", None)
    shutil.rmtree("model@home")
    with pytest.raises(FolderError, match="there is no folder"):
        load("./model@home")
