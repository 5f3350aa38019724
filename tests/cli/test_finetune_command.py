"""`deadhead finetune`: its output, and how it resumes after a kill."""

import json

import pytest
import torch
from command_line import output_of
from reviews import ENCODER, ROWS, learn
from safetensors import safe_open
from transformers import AutoTokenizer

from deadhead import load, save
from deadhead.errors import DeadheadError, FolderError, UnknownName
from deadhead.training.checkpoint import Folder


def weights(folder):
    with safe_open(folder / "model.safetensors", "pt") as stored:
        return {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118


def test_every_epoch_is_scored_and_printed(reviews, tmp_path):
    result = learn(reviews, tmp_path / "out", "--json")
    printed = json.loads(result.stdout)
    assert (printed["metric"], printed["dev"], len(printed["scores"])) == ("accuracy", {"en": 8}, 3)
    for number, (scores, loss) in enumerate(
        zip(printed["scores"], printed["losses"], strict=True), 1
    ):
        assert (
            f"epoch {number}/3: mean loss {loss:.3f}, dev accuracy {100 * scores['accuracy']:.2f}, "
            in result.stderr
        )
    table = learn(reviews, tmp_path / "again").stdout
    assert f"dev (8 examples): accuracy {100 * printed['scores'][0]['accuracy']:.2f}; " in table
    assert f"best after epoch {printed['best']}" in table


def test_a_language_without_dev_data_is_reported(reviews, tmp_path):
    result = learn(reviews, tmp_path / "de", "--json", lang="de")
    assert "no dev data of reviews in de, so its epochs are not scored" in result.stderr
    assert (json.loads(result.stdout)["dev"], json.loads(result.stdout)["best"]) == ({}, None)
    both = learn(reviews, tmp_path / "both", "--json", lang="en,de")
    assert "no dev data of reviews in de" in both.stderr
    assert json.loads(both.stdout)["dev"] == {"en": 8}
    with pytest.raises(DeadheadError, match="--weights best needs dev data"):
        learn(reviews, tmp_path / "best", "--weights", "best", lang="de")
    (reviews.parent / "de-dev.tsv").write_text((reviews.parent / "en-dev.tsv").read_text())
    table = learn(reviews, tmp_path / "two", lang="en,de").stderr
    assert "dev accuracy" in table
    assert "(en " in table
    assert not (tmp_path / "best").exists()


class Killed(BaseException):
    """As a kill, it gives nobody time to tidy up."""


def killed_after(epoch, monkeypatch):
    keep = Folder.save

    def save_and_die(self, number, *rest):
        keep(self, number, *rest)
        if number == epoch:
            raise Killed

    monkeypatch.setattr(Folder, "save", save_and_die)


def test_killed_it_resumes_to_the_same_weights(reviews, tmp_path, monkeypatch):
    whole = json.loads(learn(reviews, tmp_path / "whole", "--json").stdout)
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(Killed):
            learn(reviews, tmp_path / "killed")
    assert [file.name for file in (tmp_path / "killed").iterdir()] == [".training"]
    with pytest.raises(
        FolderError,
        match=r"(?s)another command: rate was 0.001 and is 0.002.*same command to resume it",
    ):
        learn(reviews, tmp_path / "killed", "--learning-rate", 2e-3)
    with pytest.raises(FolderError, match="--lang was en and is en,de"):
        learn(reviews, tmp_path / "killed", lang="en,de")
    again = learn(reviews, tmp_path / "killed", "--json")
    assert "resuming after epoch 2 of 3" in again.stderr
    assert "epoch 1/3" not in again.stderr
    printed = json.loads(again.stdout)
    for name in ("losses", "scores", "best"):
        assert printed[name] == whole[name]
    want, got = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all(torch.equal(want[name], got[name]) for name in want)
    assert not (tmp_path / "killed" / ".training").exists()
    with pytest.raises(DeadheadError, match="is not empty"):
        learn(reviews, tmp_path / "killed")


def test_data_or_a_model_that_changed_is_another_training(reviews, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        killed_after(1, patch)
        with pytest.raises(Killed):
            learn(reviews, tmp_path / "out")
    file = reviews.parent / "en-train.tsv"
    file.write_text(file.read_text().replace("sleeps", "runs"))
    with pytest.raises(FolderError, match=r"the data was [0-9a-f]+ and is [0-9a-f]+"):
        learn(reviews, tmp_path / "out")
    fresh = learn(reviews, tmp_path / "out", "--force")  # from scratch
    assert "resuming" not in fresh.stderr
    assert "epoch 1/3" in fresh.stderr


def test_the_precision_of_the_source_is_kept(reviews, tmp_path):
    dtype = torch.bfloat16
    small = save(
        load(ENCODER, dtype=dtype), tmp_path / "small", AutoTokenizer.from_pretrained(ENCODER)
    )
    name = str(dtype).removeprefix("torch.")
    table = learn(reviews, tmp_path / "out", model=small).stdout
    assert f"trained in float32, written in {name}" in table
    assert {
        tensor.dtype for tensor in weights(tmp_path / "out").values() if tensor.is_floating_point()
    } == {dtype}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == name
    printed = json.loads(
        learn(reviews, tmp_path / "wide", "--dtype", "float32", "--json", model=small).stdout
    )
    assert printed["dtype"] == "float32"
    wide = weights(tmp_path / "wide")
    assert {tensor.dtype for tensor in wide.values() if tensor.is_floating_point()} == {
        torch.float32
    }
    got = weights(tmp_path / "out")  # the same training, rounded only when it was written
    assert all(torch.equal(got[key], wide[key].to(got[key].dtype)) for key in got)
    with pytest.raises(UnknownName, match="float31"):
        learn(reviews, tmp_path / "x", "--dtype", "float31")


def test_max_examples_of_each_set(reviews, tmp_path):
    printed = json.loads(learn(reviews, tmp_path / "out", "--max-examples", 5, "--json").stdout)
    assert (printed["examples"], printed["dev"]) == (5, {"en": 5})
    assert "rows left out at random: 7" in printed["notes"]


def test_the_best_weights_are_those_of_the_best_epoch(reviews, tmp_path):
    dev = (
        reviews.parent / "en-dev.tsv"
    )  # with labels the wrong way round, what is learnt is of no use
    dev.write_text(
        "text\tlabel\n"
        + "".join(f"{text}\t{'bad' if label == 'good' else 'good'}\n" for text, label in ROWS * 2)
    )
    printed = json.loads(learn(reviews, tmp_path / "best", "--weights", "best", "--json").stdout)
    assert printed["best"] < 3
    args = ("--resamples", 10, "--task", reviews, "--lang", "en", "--device", "cpu", "--json")
    result = output_of("evaluate", tmp_path / "best", *args)
    (scores,) = json.loads(result.stdout)["scores"].values()
    assert scores["en"]["accuracy"] == printed["scores"][printed["best"] - 1]["accuracy"]
    learn(reviews, tmp_path / "last")
    last, best = weights(tmp_path / "last"), weights(tmp_path / "best")
    assert any(not torch.equal(last[name], best[name]) for name in last)
    with pytest.raises(UnknownName, match="weights to write"):
        learn(reviews, tmp_path / "x", "--weights", "bset")
