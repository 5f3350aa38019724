"""`deadhead demo`: an ordinary study of the embedded world that ends with its tables and a page."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from deadhead.cli import app, main
from deadhead.cli.demo import as_rich
from deadhead.studies import load, summaries
from deadhead.version import install_command

LANGUAGES = ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]
SMALL = [
    "data.examples=48",
    "targets=[en, de]",
    "seed=[0]",
    "remove=[none, {lowest: 20}, {random: [50]}, {layers: [top 1]}]",
]
WORDS = [word for text in SMALL for word in ("--set", text)]


def test_the_recipe_asks_the_three_questions() -> None:
    recipe = load("demo")
    assert recipe.data["fixed"]["targets"] == LANGUAGES
    removals = [
        json.dumps(cell.labels["remove"]) for cell in recipe.cells if cell.labels["seed"] == 0
    ]
    assert {
        '"none"',
        '{"lowest": 20}',
        '{"highest": 20}',
        '{"random": 90}',
        '{"layers": "top 1"}',
    } <= {*removals}
    assert len(recipe.trials) == len(recipe.cells) == 3 * len(removals)
    cells = {label for table in recipe.data["tables"] for label in table["where"]["remove"]}
    assert len(cells) == len(removals)  # every number is in a table


@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, ["demo", "--workers", "1", *WORDS])
    assert first.exit_code == 0, first.output
    assert "4 of 4 done, 0 failed, 0 left; 4 run" in first.stdout
    assert "deadhead-demo/page.html" in first.stdout
    assert (tmp_path / "deadhead-demo" / "page.html").stat().st_size > 100_000
    again = json.loads(CliRunner().invoke(app, ["demo", "--json", *WORDS]).stdout)
    assert (again["ran"], again["done"]) == (0, 4)  # it resumes
    by_rank = again["tables"][0]
    assert [row[0] for row in by_rank["rows"]] == ["none", "lowest 20 heads", "random 50 %"]
    full = next(
        summary
        for summary in summaries(tmp_path / "deadhead-demo").values()
        if "remove" not in summary.trial
    )
    assert by_rank["cells"][0][1]["ours"] == pytest.approx(
        100 * full.metrics["de/test/micro_f1"], abs=1e-4
    )
    assert f"{by_rank['cells'][0][1]['ours']:.1f}" in first.stdout


def test_without_the_extra_it_ends_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["deadhead", "demo", *WORDS])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "a page with figures needs the package 'vl-convert-python'" in printed.err
    assert install_command("report") in printed.err
    assert not list(tmp_path.iterdir())


def table(
    mark: str | None = None, state: str = "done", ours: float | None = 81.25
) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "ours": ours,
        "spread": 1.5,
        "n": 3,
        "published": None,
        "state": state,
        "mark": mark,
        "trials": [],
    }
    return {
        "title": "T",
        "note": "N",
        "row_names": ["remove"],
        "column_names": ["language"],
        "rows": [["layers top 1 + bottom 1"]],
        "columns": [[lang] for lang in LANGUAGES],
        "cells": [[cell] * len(LANGUAGES)],
    }


def drawn(arguments: dict[str, Any], width: int) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, force_terminal=True, color_system="standard")
    console.print(as_rich(arguments, console))
    return file.getvalue()


def test_tables_fit_the_terminal() -> None:
    narrow, wide = drawn(table(), 80), drawn(table(), 140)
    assert narrow.count("81.2") == wide.count("81.2 ±1.5") == len(LANGUAGES)
    assert "±" not in narrow
    assert "…" not in narrow + wide
    assert "\x1b[32m" in drawn(table("better"), 80)
    assert "\x1b[31m" in drawn(table("worse"), 80)
    assert "failed" in drawn(table(state="failed", ours=None), 120)
