"""Figures of heads and rankings, and suggested figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from by_hand import DRAWN, SEARCH, done, drawn, searched, study
from charts_by_hand import LAYERS, layers, measured, only, valid, values

from deadhead.report.figures.build import figures
from deadhead.report.figures.charts import COLOURS, categories
from deadhead.report.figures.cost import mark_front
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial


def test_likeness_of_rankings(tmp_path):
    rows = values(only(tmp_path, "{title: Alike, kind: similarity}", DRAWN, measured))
    assert {(row["a"], row["b"]): row["value"] for row in rows} == {
        ("en", "en"): 1,
        ("de", "de"): 1,
        ("en", "de"): -1,
        ("de", "en"): -1,
    }


def test_points_before_and_after(tmp_path):
    figure = only(tmp_path, "{title: Points, kind: points}", DRAWN, measured)
    rows = values(figure)
    assert {row["panel"] for row in rows if row["panel"].startswith("before")} == {
        "before training, none, silhouette 0.50",
        "before training, random 50 %, silhouette 0.50",
    }
    assert sum(row["panel"].startswith("before") for row in rows) == 6


def test_the_front_of_cost_and_score(tmp_path):
    rows = [
        {"cost": cost, "y": y} for cost, y in ((3, 9.0), (1, 5.0), (2, 4.0), (2, 7.0), (3, 7.0))
    ]
    mark_front(rows)
    assert [row["front"] for row in rows] == [True, True, False, True, False]
    (tmp_path / "figure").mkdir()
    drawn_rows = values(only(tmp_path / "figure", "{title: Cost, kind: cost, where: {task: mnli}}"))
    assert {row["label"]: (row["cost"], row["y"], row["n"]) for row in drawn_rows} == {
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
    for figure in charts:
        valid(figure["spec"])


def test_no_figure_sets_the_colours_of_the_page(tmp_path):
    for figure in figures(study(tmp_path, DRAWN, measured)):
        text = json.dumps(figure["spec"])
        assert "config" not in figure["spec"]
        assert '"background"' not in text
        assert '"black"' not in text
        assert '"white"' not in text


def test_several_blocks_have_panels_of_their_own(tmp_path):
    def blocks(trial, labels):
        return replace(
            drawn(trial, labels),
            removed=("encoder.0.1", "decoder.1.0", "cross.1.1") if trial.get("remove") else (),
        )

    rows = values(only(tmp_path, "{title: Removed, kind: heads, show: removed}", DRAWN, blocks))
    assert {row["panel"] for row in rows} == {"encoder", "decoder", "cross"}


def test_names_are_drawn_as_text(tmp_path):
    hostile = "<b>x</b> & 'y'"
    recipe = DRAWN.replace("model: a/model, ", "").replace(
        "axes:\n", f'axes:\n  model: ["{hostile}", other]\n'
    )
    (figure,) = figures(
        study(
            tmp_path,
            recipe + "figures: [{title: '<i>T</i>', kind: curve, x: remove, lines: model}]\n",
            drawn,
        )
    )
    assert {row["line"] for row in values(figure)} == {hostile, "other"}
    drawing = valid(figure["spec"])
    assert "<b>x" not in drawing
    assert "&lt;b&gt;x" in drawing


def test_learning_curves_are_of_the_last_training(tmp_path):
    def trained(trial, labels):
        epochs = [
            {"step": 1, "number": 1, "loss": 9.0},
            *({"step": 3, "number": i, "loss": (1 + trial.get("draw", 0)) / i} for i in (1, 2)),
        ]
        return replace(drawn(trial, labels), epochs=tuple(epochs))

    rows = values(only(tmp_path, "{title: Learning, kind: epochs}", DRAWN, trained))
    assert {row["x"] for row in rows} == {1.0, 2.0}  # not the epoch of step 1
    point = next(
        row for row in rows if (row["panel"], row["line"], row["x"]) == ("mnli", "random 50 %", 2.0)
    )
    assert (point["y"], point["low"], point["high"], point["n"]) == (1.0, 0.5, 1.5, 3)


def test_seconds_are_in_no_figure(tmp_path):
    """They are of one machine and of whatever else it did; where nothing got smaller there is no figure of costs."""

    def timed(trial, labels):
        seconds = 5.0 if trial.get("remove") else 8.0
        return replace(
            drawn(trial, labels),
            cost={"finetune s": 100.0, "evaluate s": seconds, "parameters": 1000},
        )

    assert not figures(study(tmp_path, DRAWN + "figures: [{title: Cost, kind: cost}]\n", timed))
    (tmp_path / "smaller").mkdir()
    (figure,) = figures(
        study(tmp_path / "smaller", DRAWN + "figures: [{title: Cost, kind: cost}]\n", drawn)
    )
    assert "second" not in json.dumps(figure["spec"])


MANY = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de, es, zh, hi, ur, ar, tr, sw], splits: test}
axes: {remove: [none, {random: [50, 90]}], seed: [0, 1]}
"""


def in_nine_languages(trial: Trial, labels: Mapping[str, Any]) -> Record:
    scores = {
        f"{language}/test/micro_f1": 0.9 - 0.05 * n - 0.01 * trial.get("seed")
        for n, language in enumerate(trial.get("targets"))
    }
    return done(trial, scores, cost={})


def test_many_bands_get_a_panel_each(tmp_path):
    spec = "{title: Nine, kind: curve, x: amount, lines: language, mean_over: seed}"
    figure = only(tmp_path, spec, MANY, in_nine_languages)
    rows = values(figure)
    assert (
        {row["panel"] for row in rows}
        == {row["line"] for row in rows}
        == {"en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"}
    )
    assert figure["spec"]["facet"]["sort"] == ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]
    behind = figure["spec"]["spec"]["layer"][0]
    assert len(behind["data"]["values"]) == len(rows)  # all lines, in grey
    assert "grey" in figure["note"]


def test_nine_languages_have_nine_colours():
    labels = ["en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw"]
    colours = categories(labels)["range"]
    assert len(set(colours)) == 9
    assert len(set(COLOURS)) == len(COLOURS) == 12
    parts = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in COLOURS]
    assert (
        min(
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
            for one, other in combinations(parts, 2)
        )
        > 40
    )


def test_searches_of_different_languages_have_their_own_panels(tmp_path):
    recipe = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [de, ar], splits: [dev, test]}
axes: {train: [[en], [en, de]], seed: [0]}
search: {lowest: 1..2}
"""

    def outcome(trial, labels):
        score = 0.9 if "de" in labels["train"] else 0.7
        return done(
            trial,
            {
                f"{lang}/{split}/micro_f1": score
                for lang in ("de", "ar")
                for split in ("dev", "test")
            },
        )

    rows = values(figures(study(tmp_path, recipe, outcome))[0])
    scores = {
        panel: {row["y"] for row in rows if row["panel"] == panel}
        for panel in {row["panel"] for row in rows}
    }
    assert (scores["en \u2192 de"], scores["en+de \u2192 de"]) == ({70.0}, {90.0})
    assert not any("None" in panel for panel in scores)
    assert not any(
        "low" in row for row in rows
    )  # one unpruned trial has no spread; what languages differ in is none
