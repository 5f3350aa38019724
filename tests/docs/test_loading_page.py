"""The page of who loads a pruned folder: some of its rows are measured again."""

from __future__ import annotations

import csv
import importlib.util
import re
from typing import Any

import pytest
from doc_blocks import ROOT

# one or more of each kind of row in the table
TYPES = ("llama", "bert", "gpt2", "qwen3", "t5", "zamba2", "sew")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("loading_page", ROOT / "docs" / "loading.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script: Any) -> dict[str, tuple[str, str]]:
    """model type -> (even, uneven), as in the table."""
    with script.TABLE.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) > 400
    return {row["model_type"]: (row["even"], row["uneven"]) for row in table}


@pytest.mark.parametrize("model_type", TYPES)
def test_a_row_is_what_is_measured(
    script: Any, rows: dict[str, tuple[str, str]], model_type: str
) -> None:
    row = script.measure(model_type)
    assert (row["even"], row["uneven"]) == rows[model_type]


def test_each_kind_of_row_is_measured(rows: dict[str, tuple[str, str]]) -> None:
    kinds = {row for row in rows.values() if not row[0].startswith("not measured")}
    assert {rows[model_type] for model_type in TYPES} == kinds


def test_the_page_counts_the_rows(script: Any, rows: dict[str, tuple[str, str]]) -> None:
    measured = [row for row in rows.values() if not row[1].startswith("not measured")]
    text = re.sub(r"transformers [\d.]+:", "transformers X:", script.PAGE.read_text("utf-8"))
    assert text == script.INTRO.format(version="X", count=len(measured))
