"""docs/papers.md is right: recipes with numbers of trials, capabilities, commands and names."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from paper_recipes import OF_PAPERS

from deadhead.studies import load

PAGE = (Path(__file__).parent.parent.parent / "docs" / "papers.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z-]+/[a-z0-9]+)` \| [^|]+ \| ([\d,]+) \| (\d+)(?:, [\d,]+ s)? \|", re.M)
LISTED = {name: (int(full.replace(",", "")), int(mini)) for name, full, mini in ROW.findall(PAGE)}


def test_every_recipe_is_listed() -> None:
    assert {*LISTED} == {*OF_PAPERS}


@pytest.mark.parametrize("name", OF_PAPERS)
def test_numbers_of_trials(name: str) -> None:
    assert LISTED[name] == (len(load(name).trials), len(load(name, scale="mini").trials))


def test_fifty_capabilities() -> None:
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", PAGE, re.M)] == list(range(1, 51))


def test_recipes_named_in_commands_exist() -> None:
    named = set(re.findall(r"deadhead (?:plan|run) ([a-z-]+/[a-z0-9]+)", PAGE))
    assert len(named) > 10
    assert named <= {*OF_PAPERS}


def test_functions_named_exist() -> None:
    named = re.findall(r"`(deadhead(?:\.[a-z_]+)*)\.([a-z_]+)\b", PAGE)
    assert len(named) >= 20
    for room, name in named:
        assert hasattr(importlib.import_module(room), name), f"{room}.{name}"
