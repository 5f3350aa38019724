"""Figures of heads and rankings, and suggested figures."""

import json
from dataclasses import replace

import pytest
from by_hand import DRAWN, SEARCH, done, drawn, searched, study
from charts_by_hand import LAYERS, layers, measured, only, valid, values

from deadhead.report.figures.build import figures
from deadhead.report.figures.cost import mark_front

NINE = ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]


def test_likeness_of_rankings(tmp_path):
    rows = values(only(tmp_path, "{title: Alike, kind: similarity}", DRAWN, measured))
    rhos = {(row["a"], row["b"]): row["value"] for row in rows}
    assert rhos == {("en", "en"): 1, ("de", "de"): 1, ("en", "de"): -1, ("de", "en"): -1}


def test_points_before_and_after(tmp_path):
    rows = values(only(tmp_path, "{title: Points, kind: points}", DRAWN, measured))
    before = [row["panel"] for row in rows if row["panel"].startswith("before")]
    assert len(before) == 6
    assert {*before} == {
        f"before training, {removal}, silhouette 0.50" for removal in ("none", "random 50 %")
    }


def test_the_front_of_cost_and_score(tmp_path):
    places = ((3, 9.0), (1, 5.0), (2, 4.0), (2, 7.0), (3, 7.0))
    rows = [{"cost": cost, "y": y} for cost, y in places]
    mark_front(rows)
    assert [row["front"] for row in rows] == [True, True, False, True, False]
    rows = values(only(tmp_path, "{title: Cost, kind: cost, where: {task: mnli}}"))
    assert {row["label"]: (row["cost"], row["y"], row["n"]) for row in rows} == {
        "none": (0.001, 80, 1),
        "random 50 %": (0.0006, 72, 3),
    }


@pytest.mark.parametrize(
    ("recipe", "outcome"), [(DRAWN, measured), (SEARCH, searched), (LAYERS, layers)]
)
def test_a_recipe_without_figures_gets_fitting_ones_that_can_be_drawn(tmp_path, recipe, outcome):
    charts = figures(study(tmp_path, recipe, outcome))
    assert charts
    assert len({chart["id"] for chart in charts}) == len(charts)
    for chart in charts:
        valid(chart["spec"])
        text = json.dumps(chart["spec"])  # the page sets the colours of text and background
        assert not any(word in text for word in ("config", '"background"', '"black"', '"white"'))


def test_several_blocks_have_panels_of_their_own(tmp_path):
    def blocks(trial, labels):
        removed = ("encoder.0.1", "decoder.1.0", "cross.1.1") if trial.get("remove") else ()
        return replace(drawn(trial, labels), removed=removed)

    rows = values(only(tmp_path, "{title: Removed, kind: heads, show: removed}", DRAWN, blocks))
    assert {row["panel"] for row in rows} == {"encoder", "decoder", "cross"}


def test_names_are_drawn_as_text(tmp_path):
    hostile = "<b>x</b> & 'y'"
    models = f'axes:\n  model: ["{hostile}", other]\n'
    recipe = DRAWN.replace("model: a/model, ", "").replace("axes:\n", models)
    spec = "{title: '<i>T</i>', kind: curve, x: remove, lines: model}"
    figure = only(tmp_path, spec, recipe, drawn)
    assert {row["line"] for row in values(figure)} == {hostile, "other"}
    drawing = valid(figure["spec"])
    assert "<b>x" not in drawing
    assert "&lt;b&gt;x" in drawing


def test_learning_curves_are_of_the_last_training(tmp_path):
    def trained(trial, labels):
        last = ({"step": 3, "number": n, "loss": (1 + trial.get("draw", 0)) / n} for n in (1, 2))
        first = {"step": 1, "number": 1, "loss": 9.0}
        return replace(drawn(trial, labels), epochs=(first, *last))

    rows = values(only(tmp_path, "{title: Learning, kind: epochs}", DRAWN, trained))
    points = {(row["panel"], row["line"], row["x"]): row for row in rows}
    assert {x for *_, x in points} == {1.0, 2.0}  # not the epoch of step 1
    point = points["mnli", "random 50 %", 2.0]
    assert (point["y"], point["low"], point["high"], point["n"]) == (1.0, 0.5, 1.5, 3)


def test_many_bands_get_a_panel_each(tmp_path):
    def in_nine_languages(trial, labels):
        scores = {
            f"{language}/test/micro_f1": 0.9 - 0.05 * n - 0.01 * trial.get("seed")
            for n, language in enumerate(NINE)
        }
        return done(trial, scores, cost={})

    recipe = f"""\
steps: [prune, finetune, evaluate]
fixed: {{model: a/model, task: pos, source: en, targets: [{", ".join(NINE)}], splits: test}}
axes: {{remove: [none, {{random: [50, 90]}}], seed: [0, 1]}}
"""
    spec = "{title: Nine, kind: curve, x: amount, lines: language, mean_over: seed}"
    figure = only(tmp_path, spec, recipe, in_nine_languages)
    rows = values(figure)
    assert {row["panel"] for row in rows} == {row["line"] for row in rows} == {*NINE}
    assert figure["spec"]["facet"]["sort"] == NINE
    behind = figure["spec"]["spec"]["layer"][0]
    assert len(behind["data"]["values"]) == len(rows)  # all lines, in grey
    assert "grey" in figure["note"]


def test_searches_of_different_languages_have_their_own_panels(tmp_path):
    recipe = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [de, ar], splits: [dev, test]}
axes: {train: [[en], [en, de]], seed: [0]}
search: {lowest: 1..2}
"""

    def outcome(trial, labels):
        score = 0.9 if "de" in labels["train"] else 0.7
        places = [f"{lang}/{split}" for lang in ("de", "ar") for split in ("dev", "test")]
        return done(trial, {f"{place}/micro_f1": score for place in places})

    rows = values(figures(study(tmp_path, recipe, outcome))[0])
    scores: dict[str, set[float]] = {}
    for row in rows:
        scores.setdefault(row["panel"], set()).add(row["y"])
    assert (scores["en \u2192 de"], scores["en+de \u2192 de"]) == ({70.0}, {90.0})
    assert not any("None" in panel for panel in scores)
    # One unpruned trial has no spread; what languages differ in is none.
    assert not any("low" in row for row in rows)
