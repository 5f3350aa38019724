"""A hint names what can be typed in the command at hand."""

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import deadhead
from deadhead.cli import app

SOURCE = Path(deadhead.__file__).parent
READERS = ("evaluate", "rank", "finetune", "shrink")  # commands that read data
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def options(*commands):
    every = get_command(app).commands  # type: ignore[attr-defined]
    return [{text for p in every[name].params for text in p.opts} for name in commands]


def named(folder):
    """The options that texts in a folder name; those of other programs are left out."""
    files = (SOURCE / folder).rglob("*.py")
    texts = (
        line for file in files for line in file.read_text().splitlines() if "ray start" not in line
    )
    return {name for text in texts for name in OPTION.findall(text)}


def test_hints_of_data_name_options_of_all_commands_that_read_data():
    of_studies = {"--set"}  # each time with the word "study" before it
    of_retrieval = {"--split"}  # nothing can be fine-tuned on it
    known = set.intersection(*options(*READERS))
    assert named("tasks") - of_studies - of_retrieval - {"--task"} <= known
    assert of_retrieval <= set.intersection(*options(*{*READERS} - {"finetune"}))


def test_hints_of_studies_name_options_of_their_commands():
    of_others = {"--source"}  # replaced in hints
    known = set.union(*options("plan", "run", "status"))
    assert named("studies") - of_others <= known


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", "")  # restored afterwards, whatever --data sets it to


@pytest.mark.parametrize("data", [[], ["--data", "nowhere"]])
def test_a_plan_names_what_a_plan_takes(data, monkeypatch):
    command = ["plan", "contributions/search", "--set", "source=[de]", "--set", "targets=[nl]"]
    printed = CliRunner().invoke(app, [*command, *data]).stdout
    assert "--source" not in printed
    hints = [*dict.fromkeys(re.findall(r"--set (\S+=(?:ud|wikiann)\S*)", printed))]
    assert hints == ["fixed.data.source.ner=wikiann", "fixed.data.source.pos=ud-2.17"]
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
    typed = [part for hint in hints for part in ("--set", hint)]
    printed = CliRunner().invoke(app, [*command, *typed]).stdout
    assert "Missing" not in printed, printed


def test_a_check_names_what_a_check_takes():
    printed = CliRunner().invoke(app, ["data", "check", "nowhere"])
    assert printed.exit_code == 1
    assert (
        "Hint: name a folder of data: deadhead data check DIR"
        in str(printed.exception) + printed.output
    )


def test_a_broken_line_names_no_option_that_only_a_check_has(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2/dev.tsv").write_text("sentence\tlabel\nfine\t7\n")
    command = [
        "evaluate",
        "world/encoder",
        "--task",
        "sst2",
        "--lang",
        "en",
        "--data",
        str(tmp_path),
    ]
    printed = CliRunner().invoke(app, [*command, "--split", "dev"])
    text = str(printed.exception) + printed.output
    assert "dev.tsv:2" in text
    assert "--malformed" not in text
    assert "correct or remove the line" in text
