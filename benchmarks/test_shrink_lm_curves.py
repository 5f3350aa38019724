"""The benchmark of curves of a language model: its rows, its draws, and its table."""

from __future__ import annotations

import importlib
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tiny_decoders import TEXT, llama, tokenizer

BENCHMARKS = Path(__file__).parent
PLACES = [("none", "whole"), ("random", "cut"), ("random", "mean"), ("random", "refit")]
TRAINED = [("none", "whole, one epoch"), ("random", "refit, one epoch")]


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("shrink_lm_curves")


@pytest.fixture(scope="module")
def run(script, tmp_path_factory):
    """Runs the command on a small model; returns its folder and the rows of each draw."""
    folder = tmp_path_factory.mktemp("lm")
    llama(positions=512).float().save_pretrained(folder / "model")
    tokenizer().save_pretrained(folder / "model")
    for seed, (name, words) in enumerate({"calibration": 6000, "text": 1500}.items()):
        drawn = random.Random(seed).choices(TEXT.split(), k=words)
        (folder / f"{name}.txt").write_text(" ".join(drawn), encoding="utf-8")

    def command(*options: str) -> Any:
        names = ("calibration", "text")
        texts = [part for name in names for part in (f"--{name}", str(folder / f"{name}.txt"))]
        places = ["--model", str(folder / "model"), "--out", str(folder / "out")]
        sizes = ["--windows", "8", "--scored", "2", "--shares", "50", "--choices", "random"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["shrink_lm_curves.py", *places, *texts, *sizes, *options])
            script.main()
        files = sorted((folder / "out").glob("*.jsonl"))
        rows = {file.stem: [*map(json.loads, file.read_text().splitlines())] for file in files}
        return SimpleNamespace(folder=folder, files=files, rows=rows)

    return command


def test_every_draw_has_its_rows_and_the_whole_model_stays(run, script):
    some = run("--draw", "0,1", "--parts", "heads")
    assert [*some.rows] == ["lm-0", "lm-1"]
    for _, *rows in some.rows.values():
        assert [(row["choice"], row["treatment"]) for row in rows] == PLACES
    (_, first, *others), (_, second, *_) = some.rows.values()
    assert first["perplexity"] == second["perplexity"]
    assert len({row["perplexity"] for row in [first, *others]}) == 4
    assert first["loss"] != second["loss"]  # each draw holds out other windows
    everything = run("--draw", "0,1", "--parts", "heads,epoch")
    for name, (_, *rows) in everything.rows.items():
        assert rows[:4] == some.rows[name][1:]
        of_heads = [row for row in rows[4:] if row["units"] == "heads"]
        assert [(row["choice"], row["treatment"]) for row in of_heads] == TRAINED
        assert {row["units"] for row in rows} == {"heads", "neurons", "both"}
    table = script.table(everything.files)
    assert "| heads | random | refit, one epoch |" in table
    assert "2 draws" in table


def test_a_line_of_the_figure_starts_at_its_control(script):
    figure = sys.modules["shrink_lm_figure"]
    rows = [
        {"units": units, "choice": choice, "share": share, "treatment": treatment, "perplexity": y}
        for units, choice, share, treatment, y in [
            ("heads", "none", 0, "whole", 24.0),
            ("heads", "none", 0, "whole, one epoch", 17.0),
            ("neurons", "fisher", 50, "refit, one epoch", 31.0),
            ("neurons", "fisher", 50, "refit, one epoch", 29.0),
            ("neurons", "fisher", 10, "refit, one epoch", 19.0),
            ("neurons", "kwon", 50, "refit, one epoch", 99.0),
            ("neurons", "fisher", 50, "refit", 99.0),
            ("both", "fisher", 50, "refit, one epoch", 99.0),
        ]
    ]
    points = figure.line(rows, "neurons", "fisher", "refit, one epoch", name="one")
    assert [(point["x"], point["y"], point["n"]) for point in points] == [
        (0, 17.0, 1),
        (10, 19.0, 1),
        (50, 30.0, 2),
    ]
    assert (points[2]["low"], points[2]["high"]) == (29.0, 31.0)
    untrained = figure.line(rows, "neurons", "fisher", "refit", name="none")
    assert [point["y"] for point in untrained] == [24.0, 99.0]
    assert figure.line(rows, "heads", "fisher", "refit", name="none") == []


def test_the_figure_is_written_beside_the_table(run, script, tmp_path, capsys):
    some = run("--draw", "0", "--parts", "heads,epoch")
    file = tmp_path / "new" / "figure.svg"
    options = ["--table", *map(str, some.files), "--figure", str(file)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["shrink_lm_curves.py", *options])
        script.main()
    svg = file.read_text(encoding="utf-8")
    assert "random, refitted, one epoch (" in svg
    assert "only cut" not in svg  # units by fisher were not measured with it
    assert "| heads | random | refit |" in capsys.readouterr().out
