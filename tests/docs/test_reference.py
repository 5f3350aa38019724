"""The lists of commands and recipes are those of the code as it is now."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import pytest
from doc_blocks import ROOT


@cache
def script() -> Any:
    """The script, with each list generated once."""
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.commands, module.recipes = cache(module.commands), cache(module.recipes)
    return module


@pytest.mark.parametrize("which", ["commands", "recipes"])
def test_not_stale(which: str) -> None:
    now = getattr(script(), which)()
    kept = (ROOT / "docs" / "reference" / f"{which}.md").read_text(encoding="utf-8")
    if now != kept:  # a line, not the difference of two long pages
        pytest.fail(f"docs/reference/{which}.md is stale: run `make docs`", pytrace=False)


def test_all_are_there() -> None:
    from typer.main import get_command

    from deadhead.cli import app
    from deadhead.studies import built_in

    text, listed = script().commands(), script().recipes()
    assert all(
        f"## deadhead {name}" in text for name in get_command(app).commands if name != "data"
    )
    assert "## deadhead data check" in text
    assert "`--retry-failed`" in text
    assert all(f"## {name}\n" in listed for name in built_in())
