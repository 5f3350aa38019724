"""docs/papers.md and the table of capabilities name recipes and functions that exist."""

import csv
import importlib
import re
from pathlib import Path

from paper_recipes import OF_PAPERS

DOCS = Path(__file__).parent.parent.parent / "docs"
CAPABILITIES = (DOCS / "reference" / "capabilities.csv").read_text(encoding="utf-8")
PAGE = (DOCS / "papers.md").read_text(encoding="utf-8") + CAPABILITIES


def test_fifty_capabilities():
    rows = list(csv.DictReader(CAPABILITIES.splitlines()))
    assert [int(row["number"]) for row in rows] == list(range(1, 51))
    assert all(row["what"] and row["how"] for row in rows)


def test_recipes_named_in_commands_exist():
    named = set(re.findall(r"deadhead (?:plan|run) ([a-z-]+/[a-z0-9]+)", PAGE))
    assert len(named) > 10
    assert named <= {*OF_PAPERS}


def test_functions_named_exist():
    named = re.findall(r"`(deadhead(?:\.[a-z_]+)*)\.([a-z_]+)\b", PAGE)
    assert len(named) > 10
    for room, name in named:
        assert hasattr(importlib.import_module(room), name), f"{room}.{name}"
