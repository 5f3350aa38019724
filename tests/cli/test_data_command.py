"""`deadhead data check` and `deadhead data list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deadhead.cli.data import app

run = CliRunner().invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ner").mkdir()
    (tmp_path / "ner/en-train.txt").write_text(
        "-DOCSTART- O\n\nJan\tB-PER\n\n".replace(" O", "\tO")
    )
    (tmp_path / "ner/en-test.txt").write_text("Piet\tB-PER\nloopt\tO\n")
    return tmp_path


def test_check_prints_a_row_for_each_split(folder: Path) -> None:
    done = run(app, ["check", str(folder)])
    assert done.exit_code == 0, done.output
    test, train, total = done.stdout.splitlines()
    assert test.split()[:5] == ["ner", "en", "test", "1", "sentences"]
    assert "(document starts dropped: 1)" in train
    assert total == "2 splits read, 2 sentences; 0 cannot be read."


def test_check_without_a_folder_takes_the_one_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEADHEAD_DATA", str(folder))
    assert run(app, ["check"]).stdout == run(app, ["check", str(folder)]).stdout != ""
    monkeypatch.delenv("DEADHEAD_DATA")
    done = run(app, ["check"])
    assert done.exit_code == 2
    assert "name a data folder, or set DEADHEAD_DATA" in " ".join(
        done.output.replace("│", " ").split()
    )


def test_check_as_json(folder: Path) -> None:
    done = run(app, ["check", str(folder), "--json"])
    rows = json.loads(done.stdout)
    assert [
        (r["task"], r["language"], r["split"], r["sentences"], r["labels"], r["error"])
        for r in rows
    ] == [
        ("ner", "en", "test", 1, ["O", "B-PER"], None),
        ("ner", "en", "train", 1, ["B-PER"], None),
    ]
    assert all(len(r["fingerprint"]) == 16 for r in rows)
    assert rows[0]["fingerprint"] != rows[1]["fingerprint"]


def test_check_names_the_malformed_line_and_continues(folder: Path) -> None:
    (folder / "ner/en-test.txt").write_text("Piet\tB-PER\nloopt\n")
    done = run(app, ["check", str(folder)])
    assert done.exit_code == 1
    assert f"{folder}/ner/en-test.txt:2: 1 columns where the file has 2" in done.output
    assert "1 splits read, 1 sentences; 1 cannot be read." in done.output
    rows = json.loads(run(app, ["check", str(folder), "--json"]).stdout)
    assert [bool(row["error"]) for row in rows] == [True, False]


def test_check_of_a_task_of_your_own(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        "name: mine\nkind: classify\nlabels: [no, yes]\ntexts: [text]\nfiles: {test: en-test.tsv}\n"
    )
    (tmp_path / "en-test.tsv").write_text("text\tlabel\nhello\tyes\n")
    done = run(app, ["check", str(tmp_path), "--task-file", str(tmp_path / "task.yaml")])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("mine ")


@pytest.mark.parametrize(
    "wrong", [["--task", "ner", "--task-file", "task.yaml"], ["--task", "task.yaml"]]
)
def test_a_name_or_a_file(folder: Path, wrong: list[str]) -> None:
    done = run(app, ["check", str(folder), *wrong])
    assert done.exit_code == 2
    assert "--task NAME or --task-file FILE" in " ".join(done.output.split())


def test_list() -> None:
    done = run(app, ["list"])
    assert done.exit_code == 0
    assert "xnli" in done.stdout
    assert {row["name"] for row in json.loads(run(app, ["list", "--json"]).stdout)} >= {
        "mnli",
        "pos",
        "ner",
        "slots",
        "wmt14",
    }
