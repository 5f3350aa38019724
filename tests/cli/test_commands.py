"""Every command is in the table, has a file of its name and a complete help text."""

from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from deadhead import cli
from deadhead.cli import COMMANDS, GROUPS, app
from deadhead.saved.rank_data import LENGTH
from deadhead.tasks.task import KINDS

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


def test_the_table_the_files_and_the_reference_list_the_same_commands():
    names = [*COMMANDS, *GROUPS]
    files = {file.stem.replace("_", "-") for file in Path(cli.__file__).parent.glob("[!_]*.py")}
    assert files == set(names)
    assert [*get_command(app).commands] == names  # type: ignore[attr-defined]
    headings = [
        line.split()[2] for line in REFERENCE.splitlines() if line.startswith("## deadhead")
    ]
    assert list(dict.fromkeys(headings)) == names


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_the_command_and_every_option(name):
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    assert command.help
    if command.params and name != "recipes":
        assert f"deadhead {name} " in command.help.split("Example")[1]
    assert [param.name for param in command.params if not getattr(param, "help", None)] == []
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0


@pytest.mark.parametrize("name", ["rank", "shrink"])
def test_help_has_the_lengths_that_the_code_takes_by_default(name):
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    options = {param.name: param.help for param in command.params}
    windows = {kind: traits.window for kind, traits in KINDS.items()}
    lm, choice, qa = (windows.pop(kind) for kind in ("lm", "choice", "qa"))
    (others,) = set(windows.values())
    text = f"by default {others}. For lm it is {lm}, for choice {choice} and for qa {qa}, or what"
    assert text in options["max_length"]
    assert f"cut at --max-length sub-words, by default {LENGTH}, or the maximum" in options["text"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["bench", "a", "--against", "b", "--batch-sizes", "x"],
            "expects whole numbers such as 1,8, got 'x'",
        ),
        (["run", "smoke", "--out", ""], "expected a value, got an empty one"),
        (["run", "smoke", "--out="], "expected a value, got nothing"),
    ],
)
def test_a_wrong_value_gets_one_clear_message(words, message):
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
