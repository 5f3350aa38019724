"""A task file whose paths contain no {lang}: no command asks for a language."""

import json

import pytest
from command_line import clean

from deadhead import discover, load
from deadhead.world import MODELS

TASK = """
name: moods
kind: classify
texts: [sentence]
labels: [bad, good]
files: {train: rows.tsv, dev: rows.tsv}
"""
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    rows = [f"Maria bought {n} cars .\t{'good' if n % 2 else 'bad'}" for n in range(40)]
    (folder / "rows.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    (folder / "task.yaml").write_text(TASK)
    return folder


@pytest.mark.slow
def test_no_command_asks_for_a_language(folder, run_command):
    task, model, out = ("--task", folder / "task.yaml"), folder / "model", folder / "small"
    done = run_command("finetune", MODELS / "encoder", *task, *CPU, "--epochs", 1, "--out", model)
    assert done.code == 0, done.err
    assert "Fine-tuned with deadhead on moods: 40 examples" in (model / "README.md").read_text()
    done = run_command("evaluate", model, *task, *CPU, "--json")
    assert json.loads(done.out)["examples"] == {"text": 40}
    done = run_command("rank", model, *task, *CPU, "--out", folder / "ranking.json")
    assert done.code == 0, done.err
    few = ("--remove-heads", 10, "--examples", 40, "--on", "2x16")
    done = run_command("shrink", model, *task, *CPU, *few, "--out", out)
    assert done.code == 0, done.err
    assert "accuracy text dev" in done.out
    assert len(discover(load(out))) == 30
    assert run_command("data", "check", *task).code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "dev: rows.tsv",
            'dev: "{lang}.tsv"',
            "such as --lang en: the paths in {} contain {{lang}}",
        ),
        ("labels:", "languages: [en, de]\nlabels:", "such as --lang en: {} lists en, de"),
        ("kind: classify", "kind: translate", "such as --lang en-de: a translation has a source"),
    ],
)
@pytest.mark.parametrize("command", ["rank", "evaluate", "finetune", "shrink"])
def test_where_a_language_is_needed_the_error_says_why(
    tmp_path, run_command, command, old, new, message
):
    file = tmp_path / "own.yaml"
    file.write_text(TASK.replace(old, new))
    more = () if command == "evaluate" else ("--out", tmp_path / "out")
    more += ("--remove-heads", 2) if command == "shrink" else ()
    done = run_command(command, MODELS / "encoder", "--task", file, *CPU, *more)
    assert done.code == 2
    assert clean(done)
    words = "".join(done.err.replace("│", " ").split())  # a long path is broken
    assert "".join(message.format(file).split()) in words


def test_errors_name_the_file_that_was_typed(folder, run_command):
    task = ("--task", folder / "task.yaml")
    done = run_command("evaluate", MODELS / "encoder", *task, *CPU)
    assert done.code == 1
    assert f"does not fit moods ({folder / 'task.yaml'})" in done.err
    assert f"deadhead finetune MODEL --task {folder / 'task.yaml'} --out DIR" in done.err
    done = run_command("evaluate", MODELS / "encoder", *task, *CPU, "--split", "test")
    assert f"{folder / 'task.yaml'} names no test data" in done.err
