"""The page of who loads a pruned folder: some of its rows are measured again."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# one or more of each kind of row in the table
TYPES = ("llama", "bert", "gpt2", "qwen3", "t5", "zamba2", "sew")


@pytest.fixture(scope="module")
def page_script() -> Any:
    return SimpleNamespace(**run_path(str(DOCS / "loading.py")))


@pytest.fixture(scope="module")
def rows(page_script: Any) -> dict[str, tuple[str, str]]:
    """model type -> (even, uneven), as in the table."""
    with page_script.TABLE.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) > 400
    return {row["model_type"]: (row["even"], row["uneven"]) for row in table}


@pytest.mark.parametrize("model_type", TYPES)
def test_a_row_is_what_is_measured(
    page_script: Any, rows: dict[str, tuple[str, str]], model_type: str
) -> None:
    row = page_script.measure(model_type)
    assert (row["even"], row["uneven"]) == rows[model_type]


def test_each_kind_of_row_is_measured(rows: dict[str, tuple[str, str]]) -> None:
    kinds = {row for row in rows.values() if not row[0].startswith("not measured")}
    assert {rows[model_type] for model_type in TYPES} == kinds


def test_the_page_counts_the_rows(page_script: Any, rows: dict[str, tuple[str, str]]) -> None:
    measured = [row for row in rows.values() if not row[1].startswith("not measured")]
    text = re.sub(r"transformers [\d.]+:", "transformers X:", page_script.PAGE.read_text("utf-8"))
    assert text == page_script.INTRO.format(version="X", count=len(measured))
