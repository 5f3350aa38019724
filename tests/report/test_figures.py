"""Figures of studies written by hand: the values they draw, and that each of them can be drawn."""

from dataclasses import replace
from statistics import stdev

import pytest
from by_hand import DRAWN, HEADS, SEARCH, done, drawn, searched
from charts_by_hand import LAYERS, layers, measured, only, valid, values

BY_LINE, BY_PANEL = ("line", "x"), ("panel", "x")
CURVE = "{title: Curve, kind: curve, x: remove, lines: task, mean_over: draw}"
BANDS = "Points are means, bands one standard deviation over repetitions"


def rows_by(axes, *arguments):
    """The rows of the one figure of a study, by some of their labels."""
    rows = values(only(*arguments))
    return {tuple(row[axis] for axis in axes): row for row in rows}


def numbers(rows):
    return {at: row["y"] for at, row in rows.items()}


def test_a_curve_has_means_bands_and_published_points(tmp_path):
    figure = only(tmp_path / "both", CURVE)
    rows = {(row["line"], row["x"]): row for row in values(figure)}
    full, half = rows["mnli", 0], rows["mnli", 50]
    assert (full["y"], half["y"]) == (80, 72)
    assert half["low"] == pytest.approx(72 - stdev([70, 72, 74]))
    assert half["high"] == pytest.approx(74)
    assert "low" not in full  # one trial has no spread
    assert (half["published"], full["published"]) == (82.0, 83.69)
    assert (figure["title"], figure["kind"], figure["id"]) == ("Curve", "curve", "figure-1-curve")
    assert figure["note"] == f"{BANDS}, hollow points published numbers."
    bare = only(tmp_path / "bare", CURVE, DRAWN.replace(", published: numbers.csv", ""))
    assert bare["note"] == f"{BANDS}."


def test_a_curve_of_drops_in_panels(tmp_path):
    spec = "{title: Drop, kind: curve, x: amount, panels: task, value: drop, mean_over: draw}"
    assert numbers(rows_by(BY_PANEL, tmp_path, spec)) == {
        ("mnli", 0.0): 0,
        ("mnli", 50.0): 10,
        ("sst2", 0.0): 0,
        ("sst2", 50.0): 0,
    }


def test_layers_are_lines_over_their_number(tmp_path):
    spec = "{title: Layers, kind: curve, x: amount, lines: strategy, where: {language: en}}"
    figure = only(tmp_path, spec, LAYERS, layers)
    assert {(row["line"], row["x"]): row["y"] for row in values(figure)} == {
        ("top", 0.0): 90,
        ("top", 1.0): 89,
        ("top", 2.0): 88,
        ("bottom", 0.0): 90,
        ("bottom", 1.0): 87,
        ("bottom", 2.0): 86,
        ("top + bottom", 2.0): 85,
    }
    assert ">1.5<" not in valid(figure["spec"])  # there is no half layer


def test_languages_are_grouped_by_what_is_known_of_them(tmp_path):
    where = "where: {remove: [none, layers top 1, layers top 2]}"
    spec = f"{{title: Groups, kind: curve, x: amount, group: word_order, {where}}}"
    means = numbers(rows_by(BY_LINE, tmp_path / "lines", spec, LAYERS, layers))
    assert (means["SVO", 0.0], means["SVO", 2.0]) == (85, 83)  # English and German
    assert means["SOV", 2.0] == means["SOV", 0.0] == 50  # Hindi
    assert {line for line, _ in means} == {"SVO", "SOV", "Agglutinative"}
    spec = "{title: Groups, kind: curve, x: amount, lines: strategy, group: resource, value: drop}"
    places = rows_by(("panel", "line"), tmp_path / "panels", spec, LAYERS, layers)
    assert {panel for panel, _ in places} == {"high", "medium", "low"}
    assert {line for _, line in places} == {"top", "bottom", "top + bottom"}


@pytest.mark.parametrize(
    ("value", "best", "full", "band"), [("score", 74, 70, (70, 75)), ("gain", 4, 0, (0, 5))]
)
def test_a_search_is_compared_with_a_band_of_seeds(tmp_path, value, best, full, band):
    """A gain is over the unpruned model of the same search."""
    spec = f"{{title: Search, kind: curve, x: k, panels: language, value: {value}}}"
    english = rows_by(("panel", *BY_LINE), tmp_path, spec, SEARCH, searched)
    assert english["en", "lowest", 2]["y"] == best
    assert english["en", "lowest", 0]["y"] == full
    seeds = english["en", "unpruned seeds", 3]
    assert (seeds["low"], seeds["high"]) == band
    assert seeds["n"] == 4  # the unpruned model and three seeds
    assert not any(line == "seeds" for _, line, _ in english)


MIXED = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: xnli, source: en, targets: [en, de, hi, tr], splits: dev}
axes: [{remove: [none, {random: [10, 20]}]}, {remove: {layers: [top 1, top 2]}}]
"""


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ("group: word_order", {0.0, 10.0, 20.0}),
        ("lines: task", {0.0, 10.0, 20.0}),
        ("group: word_order, where: {strategy: layers}", {0.0, 1.0, 2.0}),
    ],
)
def test_percent_and_layers_share_no_axis(tmp_path, options, shares):
    def results(trial, labels):
        return done(trial, {f"{lang}/dev/accuracy": 0.5 for lang in ("en", "de", "hi", "tr")})

    spec = only(tmp_path, f"{{title: T, kind: curve, x: amount, {options}}}", MIXED, results)
    assert {row["x"] for row in values(spec)} == shares
    assert ("% of heads removed" in str(spec)) == ("layers" not in options)


PARTS = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, splits: [dev, test]}
axes: {train: [[en, de]], data.target_parts: [1, 9], seed: [0, 1]}
search: {lowest: 1..2}
"""


def test_a_learning_curve_has_the_means_of_unpruned_and_best_pruned(tmp_path):
    def learnt(trial, labels):
        score = 0.05 * labels["data.target_parts"] + 0.02 * labels["k"] + 0.01 * labels["seed"]
        places = [f"{lang}/{split}" for lang in ("en", "de") for split in ("dev", "test")]
        return done(trial, {f"{place}/micro_f1": score for place in places})

    spec = "{title: Learning, kind: curve, x: parts, lines: arm, panels: target}"
    rows = rows_by(("panel", *BY_LINE), tmp_path, spec, PARTS, learnt)
    assert numbers(rows) == {
        ("de", "unpruned", 1.0): 5.5,
        ("de", "lowest, best of k", 1.0): 9.5,
        ("de", "unpruned", 9.0): 45.5,
        ("de", "lowest, best of k", 9.0): 49.5,
    }
    # Both seeds count, though they share their target.
    assert {row["n"] for row in rows.values()} == {2}


def test_maps_of_heads(tmp_path):
    spec = "{title: Removed, kind: heads, show: removed, where: {task: mnli}}"
    removed = values(only(tmp_path / "removed", spec))
    shares = {row["head"]: row["value"] for row in removed}
    assert shares[HEADS[2]] == pytest.approx(3 / 4)  # in each draw, but not in the unpruned trial
    assert (removed[0]["layer"], removed[0]["index"], removed[0]["head"]) == (0, 0, HEADS[0])
    spec = "{title: Entropy, kind: heads, show: entropy}"
    entropy = rows_by(("head", "panel"), tmp_path / "entropy", spec, DRAWN, measured)
    assert entropy[HEADS[0], "before training"]["value"] == 2.0
    assert entropy[HEADS[0], "after training"]["value"] == 1.0


@pytest.mark.parametrize(
    ("options", "panels"),
    [
        ("show: ranking, panels: task", {"mnli", "sst2"}),
        ("show: weights, panels: draw", {"draw 0", "draw 1", "draw 2"}),
    ],
)
def test_panels_of_maps(tmp_path, options, panels):
    rows = values(only(tmp_path, f"{{title: Maps, kind: heads, {options}}}", DRAWN, measured))
    assert {row["panel"] for row in rows} == panels


@pytest.mark.parametrize(("remove", "moved"), [("random 50", [0.25, 0.25]), ("none", [1.5, 0.0])])
def test_the_change_of_entropy_is_that_of_one_epoch(tmp_path, remove, moved):
    """Its size, for heads that remain; of all training if nothing was measured after epoch 1."""

    def epochs(trial, labels):
        stages = {
            "before": {"entropy": {HEADS[0]: 2.0, HEADS[1]: 1.0, HEADS[2]: 3.0}},
            "after": {"entropy": {HEADS[0]: 0.5, HEADS[1]: 1.0}},
        }
        if trial.get("remove"):
            stages["first"] = {"entropy": {HEADS[0]: 1.75, HEADS[1]: 1.25}}
        return replace(drawn(trial, labels), details={"measures": stages})

    where = f"where: {{remove: {remove}}}"
    spec = f"{{title: Change, kind: heads, show: entropy_change, {where}}}"
    rows = values(only(tmp_path, spec, DRAWN, epochs))
    assert [(row["head"], row["value"]) for row in rows] == list(zip(HEADS[:2], moved, strict=True))
