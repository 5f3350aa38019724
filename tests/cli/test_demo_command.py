"""`deadhead demo`: half of a tagger removed, and its page; and the recipe `demo`."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deadhead
from deadhead.cli import app
from deadhead.cli.demo import next_command
from deadhead.report.page.demo import demo_page, finding
from deadhead.saved import demo as saved_demo
from deadhead.shrinking import latency
from deadhead.studies import load
from deadhead.tasks import draw_examples, load_data
from deadhead.training.models import encode_for, fitting_tokenizer

LANGUAGES = ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]


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


def test_the_next_command_has_options_that_exist(small):
    words = shlex.split(next_command(small[0].folders["tagger"].parent))
    printed = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "300"}).output
    assert Path(words[2]) == small[0].folders["tagger"]
    assert all(word in printed for word in words if word.startswith("--"))


def test_the_study_is_run_and_reported(run_command, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr("deadhead.cli.demo.run", lambda *values, **_: calls.append(values))
    monkeypatch.setattr("deadhead.cli.demo.report", lambda *values: calls.append(values))
    assert run_command("demo", "--study", "--out", tmp_path).code == 0
    assert calls == [("demo", tmp_path), ([tmp_path],)]


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
