"""The lists of commands, recipes and claims are those of the code as it is now."""

from functools import cache

import pytest
from doc_blocks import ROOT, script

LISTS = ("reference/commands.md", "reference/recipes.md", "reference/recipes.csv", "claims.csv")


@cache
def pages():
    """Every list, generated once."""
    return script("make").pages()


def test_every_list_is_compared():
    assert {*LISTS} == {*pages()}


@pytest.mark.parametrize("path", LISTS)
def test_not_stale(path):
    kept = (ROOT / "docs" / path).read_text(encoding="utf-8")
    if pages()[path] != kept:  # a line, not the difference of two long pages
        pytest.fail(f"docs/{path} is stale: run `make docs`", pytrace=False)
