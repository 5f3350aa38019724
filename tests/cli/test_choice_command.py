"""Multiple choice on the command line: evaluate, rank, shrink and finetune on rows."""

import json

import pytest
from command_line import clean

import tiny_decoders
from deadhead import discover, load
from deadhead.ranking import Ranking

ROWS = [
    {"context": "Maria bought a", "options": [" red car .", " dog", " city"], "answer": 0},
    {"context": "The dog ", "options": ["sleeps .", "is open ."], "answer": 1},
    {"context": "The café is", "options": [" 北京", " open .", " red", " a car"], "answer": 3},
    {"context": "a city ; " * 5 + "a house", "options": [" stands", " sleeps"], "answer": 0},
]


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_decoders.saved(tmp_path_factory.mktemp("models") / "decoder")


@pytest.fixture
def rows(tmp_path):
    return write(tmp_path / "rows.jsonl", *ROWS)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data" / "train.jsonl", *ROWS * 3)
    write(tmp_path / "data" / "test.jsonl", *ROWS)
    return tmp_path / "data"


def test_evaluate(run_command, model, rows):
    words = ("evaluate", model, "--task", "choice", "--data", rows, "--device", "cpu")
    done = run_command(*words)
    assert done.code == 0, done.err
    assert "choice accuracy, dev" in done.out
    assert "choice accuracy per character" in done.out
    assert "choice accuracy per byte" in done.out
    assert "bootstrap samples of rows" in done.out
    assert "cut" not in done.err
    assert "[-]: no interval from fewer than 20 of them" in done.out  # there are four rows
    printed = json.loads(run_command(*words, "--json").out)
    interval = printed["intervals"][str(model)]["text"]
    assert (interval["low"], interval["high"]) == (None, None)
    assert [*printed["scores"][str(model)]["text"]] == ["acc", "acc_norm", "acc_bytes"]
    assert printed["examples"] == {"text": 4}
    assert printed["metric"] == "acc"
    done = run_command(*words, "--max-length", 12)
    assert f"{model}: contexts cut on the left: 1" in done.err


def test_rank_and_prune(run_command, model, rows, tmp_path):
    words = ("--task", "choice", "--data", rows, "--max-length", 12, "--device", "cpu")
    done = run_command("rank", model, *words, "--out", tmp_path / "ranking.json")
    assert done.code == 0, done.err
    assert "contexts cut on the left: 1" in done.out
    assert "4 examples in 4 windows" in done.out
    ranking = Ranking.load(tmp_path / "ranking.json")
    assert len(ranking) == 8
    assert len({*ranking.scores.values()}) > 1
    words = ("--task", "choice", "--data", rows, "--loss", "self", "--device", "cpu")
    assert run_command("rank", model, *words, "--out", tmp_path / "self.json").code == 0


def test_shrink(run_command, model, folder, tmp_path):
    out = tmp_path / "small"
    words = ("--task", "choice", "--data", folder, "--remove-heads", 2, "--device", "cpu", "--json")
    done = run_command("shrink", model, *words, "--out", out)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["metric"] == "acc"
    assert printed["splits"] == {"text": "test"}
    assert printed["facts"]["examples"] == 12
    assert len(discover(load(out))) == 6
    pair = ("evaluate", model, out, "--task", "choice", "--data", folder, "--split", "test")
    done = run_command(*pair, "--device", "cpu", "--json")
    assert [*json.loads(done.out)["scores"]] == [str(model), str(out)]


def test_finetune(run_command, model, folder, tmp_path):
    out = tmp_path / "trained"
    how = ("--epochs", 8, "--learning-rate", 1e-2, "--batch-size", 4, "--device", "cpu", "--json")
    words = ("--task", "choice", "--data", folder, *how, "--out", out)
    for more in ((), ("--lora", 2, "--force")):
        done = run_command("finetune", model, *words, *more)
        assert done.code == 0, done.err
        losses = json.loads(done.out)["losses"]
        assert losses[-1] < losses[0]
        assert not [name for name in load(out).state_dict() if "lora" in name]


def test_mistakes(run_command, model, rows, tmp_path):
    def evaluate(*words):
        done = run_command("evaluate", model, "--task", "choice", "--device", "cpu", *words)
        assert done.code != 0
        assert clean(done)
        return done.err + done.out

    bad = write(tmp_path / "bad.jsonl", {"context": "a", "options": ["b", "c"], "answer": 2})
    assert "`answer` expects the number of an option, 0 to 1, got 2." in evaluate("--data", bad)
    assert "there is no such folder or file" in evaluate("--data", tmp_path / "nowhere.jsonl")
    assert "no language" in evaluate("--data", rows, "--lang", "en")
    long = evaluate("--data", rows, "--max-length", 4)
    assert "has 5 tokens, and a window holds 4" in long
    assert "raise --max-length (max_length) to 6 or more" in " ".join(long.split())
    listed = tmp_path / "list.jsonl"
    listed.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")
    assert "a JSON list, where each line should be one JSON object" in evaluate("--data", listed)
    quiz = write(tmp_path / "quiz" / "quiz.jsonl", *ROWS).parent
    problem = " ".join(evaluate("--data", quiz).split())
    assert "neither the name of the file nor a field 'partition' names a split" in problem
