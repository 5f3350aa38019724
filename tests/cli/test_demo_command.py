"""`deadhead demo`: half of a tagger removed, its page; and the study of the embedded world."""

import io
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import deadhead
from deadhead.cli import app, main
from deadhead.cli.demo import as_rich, next_command
from deadhead.report.page.demo import demo_page, finding
from deadhead.saved import demo as saved_demo
from deadhead.shrinking import latency
from deadhead.studies import load, summaries
from deadhead.tasks import draw_examples, load_data
from deadhead.training.models import encode_for, fitting_tokenizer
from deadhead.version import install_command

LANGUAGES = ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]
SMALL = [
    "data.examples=48",
    "targets=[en, de]",
    "seed=[0]",
    "remove=[none, {lowest: 20}, {random: [50]}, {layers: [top 1]}]",
]
WORDS = [word for text in SMALL for word in ("--set", text)]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The demo on few sentences, with its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_demo, "SECONDS", 0.01)
        patch.setattr(latency, "ROUNDS", (3, 3))
        out = tmp_path_factory.mktemp("demo")
        done = saved_demo.run_demo(out, sentences=96, calibrated=48, tested=10)
    return done, demo_page(done, next_command(out))


def table_of(page):
    body = re.search("<tbody>(.*)</tbody>", page).group(1)
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("</tr>")[:-1]]


def test_the_page_says_what_was_measured(small):
    demo, page = small
    full, chosen, cut, random, _ = (row[1:10] for row in table_of(page))
    for cells, scores in [
        (full, demo.scores["full"]),
        (chosen, demo.scores["chosen"]),
        (cut, demo.before_repair["chosen"]),
        (random, demo.scores["random"]),
    ]:
        assert cells == [f"{100 * scores[language]:.1f}" for language in LANGUAGES]
    speeds = [float(row[-1]) for row in table_of(page) if row[-1]]
    assert speeds == [round(demo.speed(name), 2) for name in ("full", "chosen", "random")]
    best = demo.ranking.highest(1)[0]
    assert f'title="{best}: {demo.ranking[best]:.4g}"' in page
    assert f"Highest: {best}," in page
    assert f"scores {100 * demo.mean('chosen'):.1f} points instead of" in page
    wrong = replace(demo, scores={**demo.scores, "full": dict.fromkeys(LANGUAGES, 0.123)})
    assert table_of(demo_page(wrong, ""))[0][1:10] == ["12.3"] * 9 != full


def test_the_page_is_one_file_without_scripts(small):
    assert not re.search("<script|<link|https?:|src=", small[1])


def test_the_saved_models_are_those_of_the_numbers(small):
    demo, _ = small
    sets = {"tr": draw_examples(load_data("pos", "tr", "test", root="world"), 10, 0)}
    for folder, name in {"tagger": "full", "smaller": "chosen"}.items():
        model = deadhead.load(demo.folders[folder])
        tokenizer = fitting_tokenizer(model, str(demo.folders[folder]))
        encoded = {lang: encode_for(model, tokenizer, data) for lang, data in sets.items()}
        scores = deadhead.evaluate(model, encoded, tokenizer=tokenizer, progress=False)
        assert scores["tr"]["micro_f1"] == demo.scores[name]["tr"]
        assert len(deadhead.discover(model)) == demo.sizes[name]["heads"]
    assert {*deadhead.discover(model).removed} == {*demo.removed}


def test_the_control_is_as_small_as_the_choice(small):
    sizes = small[0].sizes
    assert sizes["chosen"] == sizes["random"] != sizes["full"]
    assert (sizes["full"]["heads"], sizes["chosen"]["heads"]) == (40, 20)
    assert sizes["chosen"]["neurons"] * 2 == sizes["full"]["neurons"]


def test_the_command(small, run_command, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_demo, "run_demo", lambda out, say: small[0])
    monkeypatch.chdir(tmp_path)
    Path("deadhead-demo").mkdir()
    done = run_command("demo")
    assert done.code == 0, done.err
    assert "The page: deadhead-demo/page.html" in done.out
    assert finding(small[0]) in done.out
    assert Path("deadhead-demo/page.html").read_text(encoding="utf-8") == demo_page(
        small[0], next_command(Path("deadhead-demo"))
    )
    as_json = json.loads(run_command("demo", "--json").out)
    assert as_json["scores"] == small[0].scores
    assert as_json["next"] in done.out
    assert run_command("demo", "--workers", "2").code == 2


def test_the_next_command_has_options_that_exist(small):
    words = shlex.split(next_command(small[0].folders["tagger"].parent))
    shown = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "300"}).output
    assert Path(words[2]) == small[0].folders["tagger"]
    assert all(word in shown for word in words if word.startswith("--"))


def test_the_recipe_asks_the_three_questions():
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
def test_the_study(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, ["demo", "--study", "--workers", "1", *WORDS])
    assert first.exit_code == 0, first.output
    assert "4 of 4 done, 0 failed, 0 left; 4 run" in first.stdout
    assert "deadhead-demo-study/page.html" in first.stdout
    assert (tmp_path / "deadhead-demo-study" / "page.html").stat().st_size > 100_000
    again = json.loads(CliRunner().invoke(app, ["demo", "--study", "--json", *WORDS]).stdout)
    assert (again["ran"], again["done"]) == (0, 4)  # it resumes
    by_rank = again["tables"][0]
    assert [row[0] for row in by_rank["rows"]] == ["none", "lowest 20 heads", "random 50 %"]
    full = next(
        summary
        for summary in summaries(tmp_path / "deadhead-demo-study").values()
        if "remove" not in summary.trial
    )
    assert by_rank["cells"][0][1]["ours"] == pytest.approx(
        100 * full.metrics["de/test/micro_f1"], abs=1e-4
    )
    assert f"{by_rank['cells'][0][1]['ours']:.1f}" in first.stdout


def test_without_the_extra_the_study_ends_before_it_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["deadhead", "demo", "--study", *WORDS])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "a page with figures needs the package 'vl-convert-python'" in printed.err
    assert install_command("report") in printed.err
    assert not list(tmp_path.iterdir())


def table(mark=None, state="done", ours=81.25):
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


def drawn(arguments, width):
    file = io.StringIO()
    console = Console(width=width, file=file, force_terminal=True, color_system="standard")
    console.print(as_rich(arguments, console))
    return file.getvalue()


def test_tables_fit_the_terminal():
    narrow, wide = drawn(table(), 80), drawn(table(), 140)
    assert narrow.count("81.2") == wide.count("81.2 ±1.5") == len(LANGUAGES)
    assert "±" not in narrow
    assert "…" not in narrow + wide
    assert "\x1b[32m" in drawn(table("better"), 80)
    assert "\x1b[31m" in drawn(table("worse"), 80)
    assert "failed" in drawn(table(state="failed", ours=None), 120)
