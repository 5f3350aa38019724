"""A fourth paper is a folder: the one that docs/extend.md describes, used by all commands."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deadhead.papers
from deadhead.cli import app
from deadhead.papers import catalogue as papers
from deadhead.report.tables.build import tables

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## A paper\n")[1].split("\n## ")[0]
FILES = dict(
    re.findall(r'^```\w+ title="src/deadhead/papers/([^"]+)"\n(.*?)^```$', SECTION, re.M | re.S)
)


@pytest.fixture
def paper(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(deadhead.papers, "__path__", [*deadhead.papers.__path__, str(tmp_path)])
    monkeypatch.setattr(papers, "FOLDERS", [*papers.FOLDERS, "small_world"])
    monkeypatch.chdir(tmp_path)
    yield
    for module in [name for name in sys.modules if name.startswith("deadhead.papers.small_world")]:
        del sys.modules[module]


def command(*arguments):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_shows_every_kind_of_file():
    assert sorted(FILES) == [
        "small_world/claims.py",
        "small_world/paper.yaml",
        "small_world/published/table1.csv",
        "small_world/published/text.csv",
        "small_world/recipes/table1.yaml",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("paper")
def test_every_command_knows_it():
    assert "small-world/table1" in command("recipes")
    assert "2 trials" in command("plan", "small-world/table1")
    table = command("claims", "--published", "--paper", "small-world", "--markdown")
    assert "| S1 | Removing half of the heads at random costs less than 1 point. | holds |" in table
    command("run", "small-world/table1", "--out", "study", "--executor", "serial")
    assert re.search(r"S1\s*│", command("claims", "study"))
    command("report", "study", "--out", "page.html")
    ((none,), (half,)) = tables("study")[0]["cells"]
    assert (none["published"], half["published"]) == (91.5, 90.9)
    assert none["ours"] > 0 < half["ours"]
    assert '"published":91.5' in Path("page.html").read_text(encoding="utf-8").replace(": ", ":")


def test_other_tests_do_not_see_it():
    assert "small-world" not in papers.papers()
