"""Figures of studies written by hand: the values they draw, and that each of them can be drawn."""

from __future__ import annotations

from dataclasses import replace
from statistics import stdev

import pytest
from by_hand import DRAWN, HEADS, SEARCH, done, drawn, searched
from charts_by_hand import LAYERS, layers, measured, only, valid, values


def test_a_curve_has_means_bands_and_published_points(tmp_path):
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


def test_a_curve_speaks_of_published_points_where_it_has_some(tmp_path):
    (tmp_path / "bare").mkdir()
    spec, recipe = (
        "{title: Curve, kind: curve, x: remove, lines: task, mean_over: draw}",
        DRAWN.replace(", published: numbers.csv", ""),
    )
    assert "hollow points published numbers" in only(tmp_path, spec)["note"]
    assert (
        only(tmp_path / "bare", spec, recipe)["note"]
        == "Points are means, bands one standard deviation over repetitions."
    )


def test_a_curve_of_drops_in_panels(tmp_path):
    figure = only(
        tmp_path,
        "{title: Drop, kind: curve, x: amount, panels: task, value: drop, mean_over: draw}",
    )
    rows = {(row["panel"], row["x"]): row["y"] for row in values(figure)}
    assert rows == {("mnli", 0.0): 0, ("mnli", 50.0): 10, ("sst2", 0.0): 0, ("sst2", 50.0): 0}
    assert figure["spec"]["facet"]["sort"] == ["mnli", "sst2"]


def test_layers_are_lines_over_their_number(tmp_path):
    spec = "{title: Layers, kind: curve, x: amount, lines: strategy, where: {language: en}}"
    rows = {
        (row["line"], row["x"]): row["y"] for row in values(only(tmp_path, spec, LAYERS, layers))
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
        only(tmp_path / "again", spec, LAYERS, layers)["spec"]
    )  # there is no half layer


def test_languages_are_grouped_by_what_is_known_of_them(tmp_path):
    spec = "{title: Groups, kind: curve, x: amount, group: word_order, value: score, where: {remove: [none, layers top 1, layers top 2]}}"
    rows = {
        (row["line"], row["x"]): row["y"] for row in values(only(tmp_path, spec, LAYERS, layers))
    }
    assert rows["SVO", 0.0] == 85  # English and German
    assert rows["SVO", 2.0] == 83
    assert rows["SOV", 2.0] == rows["SOV", 0.0] == 50  # Hindi
    assert {line for line, _ in rows} == {"SVO", "SOV", "Agglutinative"}


def test_groups_are_panels_where_lines_are_something_else(tmp_path):
    spec = "{title: Groups, kind: curve, x: amount, lines: strategy, group: resource, value: drop}"
    rows = values(only(tmp_path, spec, LAYERS, layers))
    assert {row["panel"] for row in rows} == {"high", "medium", "low"}
    assert {row["line"] for row in rows} == {"top", "bottom", "top + bottom"}


def test_a_search_is_compared_with_a_band_of_seeds(tmp_path):
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


def test_a_gain_is_over_the_unpruned_model_of_the_same_search(tmp_path):
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


def test_percent_and_layers_share_no_axis(tmp_path):
    def results(trial, labels):
        return done(trial, {f"{lang}/dev/accuracy": 0.5 for lang in ("en", "de", "hi", "tr")})

    for entry in ("group: word_order", "lines: task", "group: resource, value: drop"):
        spec = only(
            tmp_path / entry[:9], f"{{title: T, kind: curve, x: amount, {entry}}}", MIXED, results
        )
        assert {row["x"] for row in values(spec)} == {0.0, 10.0, 20.0}, entry
        assert "% of heads removed" in str(spec)
    entry = "{title: T, kind: curve, x: amount, group: word_order, where: {strategy: layers}}"
    assert {row["x"] for row in values(only(tmp_path / "layers", entry, MIXED, results))} == {
        0.0,
        1.0,
        2.0,
    }


PARTS = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, splits: [dev, test]}
axes: {train: [[en, de]], data.target_parts: [1, 9], seed: [0, 1]}
search: {lowest: 1..2}
"""


def test_a_learning_curve_has_the_means_of_unpruned_and_best_pruned(tmp_path):
    def learnt(trial, labels):
        score = 0.05 * labels["data.target_parts"] + 0.02 * labels["k"] + 0.01 * labels["seed"]
        return done(
            trial,
            {
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
        ("de", "unpruned", 1.0): 5.5,
        ("de", "lowest, best of k", 1.0): 9.5,
        ("de", "unpruned", 9.0): 45.5,
        ("de", "lowest, best of k", 9.0): 49.5,
    }
    assert {row["n"] for row in rows} == {2}  # both seeds count, though they share their target


def test_maps_of_heads(tmp_path):
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


def test_the_change_of_entropy_is_that_of_one_epoch(tmp_path):
    """Its size, for heads that are left; of the whole training where nothing was measured after epoch 1."""

    def epochs(trial, labels):
        stages = {
            "before": {"entropy": {HEADS[0]: 2.0, HEADS[1]: 1.0, HEADS[2]: 3.0}},
            "after": {"entropy": {HEADS[0]: 0.5, HEADS[1]: 1.0}},
        }
        if trial.get("remove"):
            stages["first"] = {"entropy": {HEADS[0]: 1.75, HEADS[1]: 1.25}}
        return replace(drawn(trial, labels), details={"measures": stages})

    for name, where, moved in (("first", "random 50", [0.25, 0.25]), ("whole", "none", [1.5, 0.0])):
        (tmp_path / name).mkdir()
        spec = f"{{title: Change, kind: heads, show: entropy_change, where: {{remove: {where}}}}}"
        rows = values(only(tmp_path / name, spec, DRAWN, epochs))
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
