"""A trial that several cells of a recipe share, as draws of an unpruned model, counts once."""

from statistics import stdev

import pytest
from by_hand import done, study

from deadhead.report.page.content import content

SEEDS = {
    0: 0.9,
    1: 0.6,
    2: 0.6,
}  # the unpruned model has 70 points in the mean, 80 if the first counted three times
UNPRUNED = [90, 60, 60]
RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/m, task: xnli, source: en, splits: dev}
axes:
  - {remove: [none, {random: 50}, {layers: [top 1, bottom 1]}], draw: [0, 1, 2]}
  - {remove: [none, {random: 50}], seed: [1, 2]}
tables:
  - {title: Scores, rows: remove, columns: task, mean_over: draw}
  - {title: Strategies, rows: strategy, columns: task, mean_over: [draw, seed]}
figures:
  - {title: Curve, kind: curve, x: amount, mean_over: draw, where: {strategy: random}}
  - {title: Ends, kind: ends}
"""


def outcome(trial, labels):
    remove, seed = trial.get("remove") or {}, trial.get("seed")
    pruned = {
        "random": 0.6 if seed else 0.7,
        "layers": 0.56 if remove.get("layers") == "top 1" else 0.49,
    }
    return done(trial, {"en/dev/accuracy": next((pruned[name] for name in remove), SEEDS[seed])})


@pytest.fixture
def data(tmp_path):
    return content(study(tmp_path, RECIPE, outcome))


def test_in_tables(data):
    scores, strategies = (
        {row[0]: cells[0] for row, cells in zip(table["rows"], table["cells"], strict=True)}
        for table in data["tables"]
    )
    for full in (scores["none"], strategies["none"]):
        assert (full["ours"], full["n"], full["records"]) == (pytest.approx(70), 3, 3)
        assert full["spread"] == pytest.approx(stdev(UNPRUNED), abs=1e-4)
    assert (scores["random 50 %"]["ours"], scores["random 50 %"]["n"]) == (
        pytest.approx((3 * 70 + 2 * 60) / 5),
        5,
    )  # each seed for itself
    assert (scores["layers top 1"]["n"], scores["layers top 1"]["spread"]) == (1, None)


def test_in_curves_and_their_bands(data):
    (start,) = (row for row in data["figures"][0]["spec"]["data"]["values"] if row["x"] == 0)
    assert (start["y"], start["n"]) == (pytest.approx(70), 3)
    assert start["high"] - start["y"] == pytest.approx(stdev(UNPRUNED), abs=1e-3)


def test_in_what_bottom_and_top_layers_cost(data):
    (row,) = data["figures"][1]["spec"]["data"]["values"]
    assert row["y"] == pytest.approx(100 * (0.56 - 0.49) / 0.7)  # of 70, not of 80


def test_in_findings(data):
    assert "mean accuracy is 66.0, against 70.0 unpruned (5 masks, sd 5.5" in data["findings"][0]


def test_seeds_of_several_parts_of_a_recipe_weigh_the_same(tmp_path):
    """Two seeds in every draw and a third beside them: nothing is drawn: three repetitions."""
    axes = (
        "axes:\n  - {remove: [none, {random: 50}], draw: [0, 1], seed: [0, 1]}\n"
        "  - {remove: [none], seed: [2]}\n"
    )
    recipe = f"{RECIPE[: RECIPE.index('axes:')]}{axes}{RECIPE[RECIPE.index('tables:') :]}"
    scores = content(study(tmp_path, recipe, outcome))["tables"][0]["cells"]
    assert (scores[0][0]["ours"], scores[0][0]["n"]) == (pytest.approx(70), 3)
    assert (scores[1][0]["ours"], scores[1][0]["n"]) == (
        pytest.approx(65),
        2,
    )  # drawn: a repetition is a draw, with both of its seeds
