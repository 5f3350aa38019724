"""`deadhead bench-task`: the costs and the score on the data of a task, of each kind."""

import json
import re
from typing import Any

import pytest
from command_line import clean

import tiny_decoders
from deadhead import load
from deadhead.saved.bench_task import _draw, _Loaded
from deadhead.tasks import load_data
from deadhead.training.models import encode_for
from deadhead.world import MODELS

QUICK = ("--repeats", 1, "--device", "cpu")


@pytest.fixture(autouse=True)
def no_processes(monkeypatch):
    """The process that measures memory has its own test; here only what it is started with."""
    calls: list[tuple[Any, ...]] = []

    def peak(*values):
        calls.append(values)
        return 300 * 2**20

    monkeypatch.setattr("deadhead.saved.bench._peak_of_process", peak)
    return calls


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return tiny_decoders.saved(tmp_path_factory.mktemp("models") / "decoder")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(tiny_decoders.TEXT * 12)
    return tmp_path / "text.txt"


def test_two_language_models(decoder, text, run_command, no_processes):
    half = text.parent / "half"
    run_command("prune", decoder, "--remove-random", 50, "--out", half)
    data = ("--task", "lm", "--data", text, "--max-length", 16, "--max-examples", 30)
    words = ("bench-task", half, "--against", decoder, *data, "--batch-sizes", "2,4", *QUICK)
    done = run_command(*words, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    rows = {row["what"]: row for row in result["rows"]}
    scores = json.loads(run_command("evaluate", half, decoder, *data, "--json").out)["scores"]
    perplexity = rows["perplexity text dev"]
    for place, model in (("model", half), ("against", decoder)):
        assert perplexity[place] == pytest.approx(scores[str(model)]["text"]["perplexity"])
    assert perplexity["model"] != perplexity["against"]
    assert perplexity["examples"] == 30
    assert rows["heads"]["ratio"] == 0.5
    for size in (2, 4):
        speed = rows[f"tokens per second in batches of {size}"]
        seconds = rows[f"seconds in batches of {size}"]
        assert speed["model"] == pytest.approx(speed["tokens"][0] / seconds["model"])
        assert 0 < rows[f"FLOPs in batches of {size}"]["ratio"] < 1
    assert (result["task"], result["split"], result["precision"]) == ("lm", "dev", "float32")
    shape, how = (4, 16), ("cpu", "", "float32")
    assert no_processes == [(str(half), *shape, how), (str(decoder), *shape, how)]


def test_one_model_has_no_ratios(decoder, text, run_command):
    data = ("--task", "lm", "--data", text, "--max-examples", 3)
    done = run_command("bench-task", decoder, *data, "--batch-sizes", 2, *QUICK)
    assert done.code == 0, done.err
    assert re.search(r"perplexity text dev +│ [\d.]+ +│\n", done.out)
    assert re.search(r"peak memory 2 x 64 +│ 315 MB +│\n", done.out)
    assert "ratio" not in done.out
    assert "Scores are of 3 examples, times of" in " ".join(done.out.split())


def test_other_kinds_of_tasks(decoder, tmp_path, run_command):
    row = {"context": "The dog", "options": [" sleeps .", " is open ."], "answer": 0}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    choice = ("bench-task", decoder, "--task", "choice", "--data", tmp_path / "rows.jsonl")
    pairs = (
        "bench-task",
        "world/seq2seq",
        "--task",
        "parallel",
        "--lang",
        "en-de",
        "--data",
        "world",
    )
    for words, name in ((choice, "acc text dev"), (pairs, "bleu en-de dev")):
        done = run_command(*words, "--max-examples", 2, "--batch-sizes", 2, *QUICK, "--json")
        assert done.code == 0, done.err
        rows = {row["what"]: row for row in json.loads(done.out)["rows"]}
        assert rows[name]["examples"] == 2
        assert rows["tokens per second in batches of 2"]["model"] > 0


def test_mistakes_have_one_clear_error(decoder, text, run_command):
    commands = {
        "does not fit lm": (MODELS / "encoder",),
        "`batch` expects numbers of at least 1, got 0": (decoder, "--batch-sizes", 0),
        "`repeats` expects numbers of at least 1, got 0": (decoder, "--repeats", 0),
    }
    for message, (model, *options) in commands.items():
        done = run_command("bench-task", model, "--task", "lm", "--data", text, *options)
        assert done.code == 1
        assert clean(done)
        assert message in " ".join(done.err.split()), (message, done.err)


def test_every_batch_size_is_timed_on_the_same_windows(decoder, text):
    model, tokenizer = load(decoder), tiny_decoders.tokenizer()
    model.config.pad_token_id = 1
    encoded = encode_for(model, tokenizer, load_data("lm", "text", "dev", root=text), 8)
    loaded = _Loaded(model, {"text": encoded}, {})
    windows = [
        sorted(int(n) for numbers in _draw(loaded, size, 8, 0)[0].numbers for n in numbers)
        for size in (1, 8)
    ]
    assert windows[0] == windows[1]
    assert len(windows[0]) >= 8
    ids = [batch["input_ids"].shape for batch in _draw(loaded, 8, 8, 0)[0]]
    assert all(shape[0] <= 8 for shape in ids)
