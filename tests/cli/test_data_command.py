"""`deadhead data check` and `deadhead data list`."""

import json

import pytest
from typer.testing import CliRunner

from deadhead.cli.data import app

run = CliRunner().invoke


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ner").mkdir()
    (tmp_path / "ner/en-train.txt").write_text(
        "-DOCSTART- O\n\nJan\tB-PER\n\n".replace(" O", "\tO")
    )
    (tmp_path / "ner/en-test.txt").write_text("Piet\tB-PER\nloopt\tO\n")
    return tmp_path


def test_check_prints_a_row_for_each_split(folder):
    done = run(app, ["check", str(folder)])
    assert done.exit_code == 0, done.output
    test, train, total = done.stdout.splitlines()
    assert test.split()[:5] == ["ner", "en", "test", "1", "sentences"]
    assert "(document starts dropped: 1)" in train
    assert total == "2 splits read, 2 sentences; 0 cannot be read."


def test_check_without_a_folder_takes_the_one_of_the_environment(folder, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(folder))
    assert run(app, ["check"]).stdout == run(app, ["check", str(folder)]).stdout != ""
    monkeypatch.delenv("DEADHEAD_DATA")
    done = run(app, ["check"])
    assert done.exit_code == 2
    assert "name a data folder, or set DEADHEAD_DATA" in " ".join(
        done.output.replace("│", " ").split()
    )


def test_check_as_json(folder):
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


def test_check_names_the_malformed_line_and_continues(folder):
    (folder / "ner/en-test.txt").write_text("Piet\tB-PER\nloopt\n")
    done = run(app, ["check", str(folder)])
    assert done.exit_code == 1
    assert f"{folder}/ner/en-test.txt:2: 1 columns where the file has 2" in done.output
    assert "1 split read, 1 sentence; 1 cannot be read." in done.output
    rows = json.loads(run(app, ["check", str(folder), "--json"]).stdout)
    assert [bool(row["error"]) for row in rows] == [True, False]


TABLE = "text\tlabel\nhello\tyes\n"
OF_YOUR_OWN = "name: mine\nkind: classify\nlabels: [no, yes]\ntexts: [text]\n"
FILES = 'files: {train: a.tsv, dev: "{lang}/b.tsv", test: "{lang}/c.tsv"}\n'


def test_check_of_the_files_of_a_task_file(tmp_path):
    """Their names say nothing, so that only the task file can; and DIR is not needed."""
    file = tmp_path / "task.yaml"
    file.write_text(OF_YOUR_OWN + FILES)
    done = run(app, ["check", "--task-file", str(file)])
    assert "add a line such as languages: [en]" in str(done.exception)
    file.write_text(file.read_text() + "languages: [en, nl]\n")
    for name in ("a.tsv", "en/b.tsv", "de/b.tsv", "not-named-test.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TABLE)
    done = run(app, ["check", "--task-file", str(file)])
    assert done.exit_code == 1
    *rows, skipped, _ = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [" ".join(row.split()[:5]) for row in rows] == [
        "mine en train 1 sentences",
        "mine nl train 1 sentences",
        "mine en dev 1 sentences",
    ]
    assert skipped == f"skipped {tmp_path}/nl/b.tsv: there is no such file"
    assert "c.tsv: there is no such file" in done.stderr
    assert "not-named" not in done.output


def test_check_of_a_task_file_with_damaged_data(tmp_path):
    (tmp_path / "task.yaml").write_text("name: t\nkind: tag\nfiles: {train: a.txt, test: b.txt}\n")
    (tmp_path / "a.txt").write_bytes(b"\xff\n")
    (tmp_path / "b.txt").write_text("Piet\tB-PER\nloopt\n")
    done = run(app, ["check", str(tmp_path), "--task-file", str(tmp_path / "task.yaml")])
    assert done.exit_code == 1
    assert [line.split("ERROR")[1].split(":")[1] for line in done.stderr.splitlines()] == ["1", "2"]


def test_check_of_a_translation_needs_its_languages(tmp_path):
    file = tmp_path / "task.yaml"
    file.write_text("name: t\nkind: translate\nfiles: {test: a.en|a.de}\n")
    done = run(app, ["check", "--task-file", str(file)])
    assert "add a line such as languages: [en-de]" in str(done.exception)
    file.write_text(file.read_text() + "languages: [en-de]\n")
    (tmp_path / "a.en").write_text("the house\n")
    (tmp_path / "a.de").write_text("das Haus\n")
    done = run(app, ["check", "--task-file", str(file)])
    assert done.exit_code == 0, done.output
    assert done.stdout.split()[:4] == ["t", "en-de", "test", "1"]


def test_a_name_or_a_file(folder):
    done = run(app, ["check", str(folder), "--task", "ner", "--task-file", "task.yaml"])
    assert done.exit_code == 2
    assert "the same as --task: give one" in " ".join(done.output.split())
    done = run(app, ["check", str(folder), "--task", "task.yaml"])
    assert done.exit_code == 1
    assert "task.yaml: there is no such task file" in str(done.exception)


def test_list():
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
