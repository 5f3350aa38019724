"""Figures of studies written by hand: the values they draw, and that each of them can be drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import stdev
from typing import Any

import altair
import pytest
import vl_convert
from by_hand import DRAWN, HEADS, SEARCH, drawn, searched, study

from deadhead.report.export import VEGALITE
from deadhead.report.figures.build import figures
from deadhead.report.figures.charts import COLOURS, categories
from deadhead.report.figures.cost import mark_front
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial


def only(folder: Path, asked: str, recipe: str = DRAWN, outcome: Any = drawn) -> dict[str, Any]:
    """The one figure a recipe asks for; drawn too, so that a broken specification shows."""
    (figure,) = figures(study(folder, recipe + f"figures: [{asked}]\n", outcome))
    valid(figure["spec"])
    return dict(figure)


def valid(spec: dict[str, Any]) -> str:
    altair.Chart.from_dict(spec)  # by the schema of vega-lite
    drawing = str(vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE))
    assert "<path" in drawing
    assert "undefined" not in drawing
    return drawing


def values(figure: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(figure["spec"]["data"]["values"])


def test_a_curve_has_means_bands_and_published_points(tmp_path: Path) -> None:
    figure = only(tmp_path, "{title: Curve, kind: curve, x: remove, lines: task, mean_over: draw}")
    rows = {(row["line"], row["x"]): row for row in values(figure)}
    assert rows["mnli", 0]["y"] == 80
    assert rows["mnli", 50]["y"] == 72
    assert (rows["mnli", 50]["low"], rows["mnli", 50]["high"]) == (
        pytest.approx(72 - stdev([70, 72, 74])),
        pytest.approx(74),
    )
    assert "low" not in rows["mnli", 0]  # one trial has no spread
    assert (rows["mnli", 50]["published"], rows["mnli", 0]["published"]) == (82.0, 83.69)
    assert (figure["title"], figure["kind"], figure["id"]) == ("Curve", "curve", "figure-1-curve")


def test_a_curve_speaks_of_published_points_where_it_has_some(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    asked, recipe = (
        "{title: Curve, kind: curve, x: remove, lines: task, mean_over: draw}",
        DRAWN.replace(", published: numbers.csv", ""),
    )
    assert "hollow points published numbers" in only(tmp_path, asked)["note"]
    assert (
        only(tmp_path / "bare", asked, recipe)["note"]
        == "Points are means, bands one standard deviation over repetitions."
    )


def test_a_curve_of_drops_in_panels(tmp_path: Path) -> None:
    figure = only(
        tmp_path,
        "{title: Drop, kind: curve, x: amount, panels: task, value: drop, mean_over: draw}",
    )
    rows = {(row["panel"], row["x"]): row["y"] for row in values(figure)}
    assert rows == {("mnli", 0.0): 0, ("mnli", 50.0): 10, ("sst2", 0.0): 0, ("sst2", 50.0): 0}
    assert figure["spec"]["facet"]["sort"] == ["mnli", "sst2"]


LAYERS = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: xnli, source: en, targets: [en, de, hi, tr], splits: dev}
axes: {remove: [none, {layers: [top 1, top 2, bottom 1, bottom 2, top 1 + bottom 1]}]}
"""


def layers(trial: Trial, labels: Mapping[str, Any]) -> Record:
    remove = trial.get("remove")
    loss = (
        {"top 1": 1, "top 2": 2, "bottom 1": 3, "bottom 2": 4}.get(remove["layers"], 5) / 100
        if remove
        else 0
    )
    scores = {"en": 0.9, "de": 0.8, "hi": 0.5 + loss, "tr": 0.5}
    return Record(
        trial=trial,
        state="done",
        removed=(),
        metrics={f"{lang}/dev/accuracy": score - loss for lang, score in scores.items()},
    )


def test_layers_are_lines_over_their_number(tmp_path: Path) -> None:
    asked = "{title: Layers, kind: curve, x: amount, lines: strategy, where: {language: en}}"
    rows = {
        (row["line"], row["x"]): row["y"] for row in values(only(tmp_path, asked, LAYERS, layers))
    }
    assert rows == {
        ("top", 0.0): 90,
        ("top", 1.0): 89,
        ("top", 2.0): 88,
        ("bottom", 0.0): 90,
        ("bottom", 1.0): 87,
        ("bottom", 2.0): 86,
        ("top + bottom", 2.0): 85,
    }
    assert ">1.5<" not in valid(
        only(tmp_path / "again", asked, LAYERS, layers)["spec"]
    )  # there is no half layer


def test_languages_are_grouped_by_what_is_known_of_them(tmp_path: Path) -> None:
    asked = "{title: Groups, kind: curve, x: amount, group: word_order, value: score, where: {remove: [none, layers top 1, layers top 2]}}"
    rows = {
        (row["line"], row["x"]): row["y"] for row in values(only(tmp_path, asked, LAYERS, layers))
    }
    assert rows["SVO", 0.0] == 85  # English and German
    assert rows["SVO", 2.0] == 83
    assert rows["SOV", 2.0] == rows["SOV", 0.0] == 50  # Hindi
    assert {line for line, _ in rows} == {"SVO", "SOV", "Agglutinative"}


def test_groups_are_panels_where_lines_are_something_else(tmp_path: Path) -> None:
    asked = "{title: Groups, kind: curve, x: amount, lines: strategy, group: resource, value: drop}"
    rows = values(only(tmp_path, asked, LAYERS, layers))
    assert {row["panel"] for row in rows} == {"high", "medium", "low"}
    assert {row["line"] for row in rows} == {"top", "bottom", "top + bottom"}


def test_a_search_is_compared_with_a_band_of_seeds(tmp_path: Path) -> None:
    rows = values(
        only(tmp_path, "{title: Search, kind: curve, x: k, panels: language}", SEARCH, searched)
    )
    english = {(row["line"], row["x"]): row for row in rows if row["panel"] == "en"}
    assert english["lowest", 2]["y"] == 74
    assert english["lowest", 0]["y"] == 70
    seeds = english["unpruned seeds", 3]
    assert (seeds["low"], seeds["high"], seeds["n"]) == (
        70,
        75,
        4,
    )  # the unpruned model and three seeds
    assert ("seeds", 1.0) not in english


def test_a_gain_is_over_the_unpruned_model_of_the_same_search(tmp_path: Path) -> None:
    spec = only(
        tmp_path,
        "{title: Search, kind: curve, x: k, panels: language, value: gain}",
        SEARCH,
        searched,
    )
    english = {(row["line"], row["x"]): row for row in values(spec) if row["panel"] == "en"}
    assert english["lowest", 2]["y"] == 4  # 74 to 70
    assert english["lowest", 0]["y"] == 0
    assert (english["unpruned seeds", 3]["low"], english["unpruned seeds", 3]["high"]) == (0, 5)
    assert "gain in micro F1, points" in str(spec)


MIXED = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: xnli, source: en, targets: [en, de, hi, tr], splits: dev}
axes: [{remove: [none, {random: [10, 20]}]}, {remove: {layers: [top 1, top 2]}}]
"""


def test_percent_and_layers_share_no_axis(tmp_path: Path) -> None:
    def found(trial: Trial, labels: Mapping[str, Any]) -> Record:
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={f"{lang}/dev/accuracy": 0.5 for lang in ("en", "de", "hi", "tr")},
        )

    for asked in ("group: word_order", "lines: task", "group: resource, value: drop"):
        spec = only(
            tmp_path / asked[:9], f"{{title: T, kind: curve, x: amount, {asked}}}", MIXED, found
        )
        assert {row["x"] for row in values(spec)} == {0.0, 10.0, 20.0}, asked
        assert "% of heads removed" in str(spec)
    asked = "{title: T, kind: curve, x: amount, group: word_order, where: {strategy: layers}}"
    assert {row["x"] for row in values(only(tmp_path / "layers", asked, MIXED, found))} == {
        0.0,
        1.0,
        2.0,
    }


PARTS = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, splits: [dev, test]}
axes: {train: [[en, de]], data.target_parts: [1, 9]}
search: {lowest: 1..2}
"""


def test_a_learning_curve_has_the_unpruned_and_the_best_pruned(tmp_path: Path) -> None:
    def learnt(trial: Trial, labels: Mapping[str, Any]) -> Record:
        score = 0.05 * labels["data.target_parts"] + 0.02 * labels["k"]
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={
                f"{lang}/{split}/micro_f1": score
                for lang in ("en", "de")
                for split in ("dev", "test")
            },
        )

    rows = values(
        only(
            tmp_path,
            "{title: Learning, kind: curve, x: parts, lines: arm, panels: target}",
            PARTS,
            learnt,
        )
    )
    assert {(row["panel"], row["line"], row["x"]): row["y"] for row in rows} == {
        ("de", "unpruned", 1.0): 5,
        ("de", "lowest, best of k", 1.0): 9,
        ("de", "unpruned", 9.0): 45,
        ("de", "lowest, best of k", 9.0): 49,
    }


def measured(trial: Trial, labels: Mapping[str, Any]) -> Record:
    """With rankings of two languages, entropies, weights and points."""
    language = "en" if trial.get("task") == "mnli" else "de"
    scores = {head: float(i if language == "en" else -i) for i, head in enumerate(HEADS)}
    points = {"en": [[0.0, 1.0], [0.5, 1.5]], "de": [[3.0, 1.0]]}
    after = {
        "entropy": {HEADS[0]: 1.0},
        "weights": {HEADS[0]: 0.01},
        "embeddings": {"points": points, "silhouette": 0.25},
    }
    details = {"ranking": {"method": "gradient", "languages": [language], "scores": scores}}
    stages = {
        "before": {
            "entropy": dict.fromkeys(HEADS, 2.0),
            "embeddings": {"points": points, "silhouette": 0.5},
        },
        "after": after,
    }
    return replace(drawn(trial, labels), details={**details, "measures": stages})


def test_maps_of_heads(tmp_path: Path) -> None:
    removed = values(
        only(tmp_path, "{title: Removed, kind: heads, show: removed, where: {task: mnli}}")
    )
    shares = {row["head"]: row["value"] for row in removed}
    assert shares[HEADS[2]] == pytest.approx(3 / 4)  # in each draw, but not in the unpruned trial
    assert (removed[0]["layer"], removed[0]["index"], removed[0]["head"]) == (0, 0, HEADS[0])
    (tmp_path / "entropy").mkdir()
    entropy = values(
        only(tmp_path / "entropy", "{title: Entropy, kind: heads, show: entropy}", DRAWN, measured)
    )
    assert {row["panel"]: row["value"] for row in entropy if row["head"] == HEADS[0]} == {
        "before training": 2.0,
        "after training": 1.0,
    }


def test_the_change_of_entropy_is_that_of_one_epoch(tmp_path: Path) -> None:
    """Its size, for heads that are left; of the whole training where nothing was measured after epoch 1."""

    def epochs(trial: Trial, labels: Mapping[str, Any]) -> Record:
        stages = {
            "before": {"entropy": {HEADS[0]: 2.0, HEADS[1]: 1.0, HEADS[2]: 3.0}},
            "after": {"entropy": {HEADS[0]: 0.5, HEADS[1]: 1.0}},
        }
        if trial.get("remove"):
            stages["first"] = {"entropy": {HEADS[0]: 1.75, HEADS[1]: 1.25}}
        return replace(drawn(trial, labels), details={"measures": stages})

    for name, where, moved in (("first", "random 50", [0.25, 0.25]), ("whole", "none", [1.5, 0.0])):
        (tmp_path / name).mkdir()
        asked = f"{{title: Change, kind: heads, show: entropy_change, where: {{remove: {where}}}}}"
        rows = values(only(tmp_path / name, asked, DRAWN, epochs))
        assert {row["head"]: row["value"] for row in rows} == dict(
            zip(HEADS[:2], moved, strict=True)
        )
    (tmp_path / "ranking").mkdir()
    ranking = values(
        only(
            tmp_path / "ranking",
            "{title: Ranking, kind: heads, show: ranking, panels: task}",
            DRAWN,
            measured,
        )
    )
    assert {row["panel"] for row in ranking} == {"mnli", "sst2"}
    (tmp_path / "weights").mkdir()
    weights = values(
        only(
            tmp_path / "weights",
            "{title: Weights, kind: heads, show: weights, panels: draw}",
            DRAWN,
            measured,
        )
    )
    assert {row["panel"] for row in weights} == {"draw 0", "draw 1", "draw 2"}


def test_likeness_of_rankings(tmp_path: Path) -> None:
    rows = values(only(tmp_path, "{title: Alike, kind: similarity}", DRAWN, measured))
    assert {(row["a"], row["b"]): row["value"] for row in rows} == {
        ("en", "en"): 1,
        ("de", "de"): 1,
        ("en", "de"): -1,
        ("de", "en"): -1,
    }


def test_points_before_and_after(tmp_path: Path) -> None:
    figure = only(tmp_path, "{title: Points, kind: points}", DRAWN, measured)
    rows = values(figure)
    assert {row["panel"] for row in rows if row["panel"].startswith("before")} == {
        "before training, none, silhouette 0.50",
        "before training, random 50 %, silhouette 0.50",
    }
    assert sum(row["panel"].startswith("before") for row in rows) == 6


def test_the_front_of_cost_and_score(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
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
def test_a_recipe_without_figures_gets_fitting_ones_that_can_be_drawn(
    tmp_path: Path, recipe: str, outcome: Any
) -> None:
    found = figures(study(tmp_path, recipe, outcome))
    assert found
    assert len({one["id"] for one in found}) == len(found)
    for figure in found:
        valid(figure["spec"])


def test_no_figure_sets_the_colours_of_the_page(tmp_path: Path) -> None:
    for figure in figures(study(tmp_path, DRAWN, measured)):
        text = json.dumps(figure["spec"])
        assert "config" not in figure["spec"]
        assert '"background"' not in text
        assert '"black"' not in text
        assert '"white"' not in text


def test_several_blocks_have_panels_of_their_own(tmp_path: Path) -> None:
    def blocks(trial: Trial, labels: Mapping[str, Any]) -> Record:
        return replace(
            drawn(trial, labels),
            removed=("encoder.0.1", "decoder.1.0", "cross.1.1") if trial.get("remove") else (),
        )

    rows = values(only(tmp_path, "{title: Removed, kind: heads, show: removed}", DRAWN, blocks))
    assert {row["panel"] for row in rows} == {"encoder", "decoder", "cross"}


def test_names_are_drawn_as_text(tmp_path: Path) -> None:
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


def test_learning_curves_are_of_the_last_training(tmp_path: Path) -> None:
    def trained(trial: Trial, labels: Mapping[str, Any]) -> Record:
        epochs = [
            {"step": 1, "number": 1, "loss": 9.0},
            *({"step": 3, "number": i, "loss": (1 + trial.get("draw", 0)) / i} for i in (1, 2)),
        ]
        return replace(drawn(trial, labels), epochs=tuple(epochs))

    rows = values(only(tmp_path, "{title: Learning, kind: epochs}", DRAWN, trained))
    assert {row["x"] for row in rows} == {1.0, 2.0}  # not the epoch of step 1
    one = next(
        row for row in rows if (row["panel"], row["line"], row["x"]) == ("mnli", "random 50 %", 2.0)
    )
    assert (one["y"], one["low"], one["high"], one["n"]) == (1.0, 0.5, 1.5, 3)


def test_seconds_are_in_no_figure(tmp_path: Path) -> None:
    """They are of one machine and of whatever else it did; where nothing got smaller there is no figure of costs."""

    def timed(trial: Trial, labels: Mapping[str, Any]) -> Record:
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
        f"{one}/test/micro_f1": 0.9 - 0.05 * n - 0.01 * trial.get("seed")
        for n, one in enumerate(trial.get("targets"))
    }
    return Record(trial=trial, state="done", removed=(), metrics=scores, cost={})


def test_many_bands_get_a_panel_each(tmp_path: Path) -> None:
    asked = "{title: Nine, kind: curve, x: amount, lines: language, mean_over: seed}"
    figure = only(tmp_path, asked, MANY, in_nine_languages)
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


def test_nine_languages_have_nine_colours() -> None:
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


def test_searches_of_different_languages_have_their_own_panels(tmp_path: Path) -> None:
    recipe = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [de, ar], splits: [dev, test]}
axes: {train: [[en], [en, de]], seed: [0]}
search: {lowest: 1..2}
"""

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        score = 0.9 if "de" in labels["train"] else 0.7
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={
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
