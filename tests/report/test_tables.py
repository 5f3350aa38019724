"""Tables of studies written by hand: every number is computed here too."""

from dataclasses import replace
from statistics import stdev

import pytest
from by_hand import DRAWN, NUMBERS, cell, done, drawn, study

from deadhead.report.tables.build import tables


def test_means_spread_and_published_by_hand(tmp_path):
    folder = study(tmp_path, DRAWN, drawn, {"numbers.csv": NUMBERS})
    scores, _ = tables(folder)
    assert (scores["row_names"], scores["column_names"]) == (["remove"], ["task"])
    assert (scores["rows"], scores["columns"]) == (
        [["none"], ["random 50 %"]],
        [["mnli"], ["sst2"]],
    )
    pruned = cell(scores, ["random 50 %"], ["mnli"])
    assert pruned["ours"] == pytest.approx((70 + 72 + 74) / 3)
    assert pruned["spread"] == pytest.approx(stdev([70, 72, 74]))
    assert (pruned["n"], pruned["published"], pruned["state"], len(pruned["trials"])) == (
        3,
        82.0,
        "done",
        3,
    )
    full = cell(scores, ["none"], ["mnli"])  # the three draws of nothing are one trial
    assert (full["ours"], full["spread"], full["n"], full["published"]) == (80.0, None, 1, 83.69)
    assert len(full["trials"]) == 1


def test_a_table_says_where_data_was_short(tmp_path):
    def short(trial, labels):
        details = (
            {"shortfalls": {"en/train": {"expected": 2_500_000, "got": 1_486_965}}}
            if trial.get("task") == "sst2"
            else {}
        )
        return replace(drawn(trial, labels), details=details)

    note = "Less data than the recipe asks for: sst2 en/train 1,486,965 of 2,500,000 rows."
    assert all(note in table["note"] for table in tables(study(tmp_path / "short", DRAWN, short)))
    assert not any(
        "Less data" in table["note"] for table in tables(study(tmp_path / "enough", DRAWN, drawn))
    )


def test_cells_name_fewer_trials_where_all_would_name_very_many(tmp_path, monkeypatch):
    folder = study(tmp_path, DRAWN, drawn)
    whole = [entry for table in tables(folder) for row in table["cells"] for entry in row]
    assert (
        [len(entry["trials"]) for entry in whole]
        == [entry["records"] for entry in whole]
        == [1, 1, 3, 3] * 2
    )
    monkeypatch.setattr("deadhead.report.tables.build.MOST_LISTED", 15)  # of 16, in 8 cells
    cut = [entry for table in tables(folder) for row in table["cells"] for entry in row]
    assert [entry["trials"] for entry in cut] == [entry["trials"][:1] for entry in whole]
    assert [entry["numbers"] for entry in cut] == [entry["numbers"][:1] for entry in whole]
    listed = {"trials": (), "numbers": ()}
    assert [{**entry, **listed} for entry in cut] == [
        {**entry, **listed} for entry in whole
    ]  # means and counts are as they were


def test_published_rows_agree_in_every_axis_of_the_table(tmp_path):
    scores, drops = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": NUMBERS}))
    assert cell(scores, ["none"], ["sst2"])["published"] is None  # no row has this task and removal
    assert cell(scores, ["random 50 %"], ["mnli"])["published"] == 82.0
    # The model is no axis of the table, but its number is of another one.
    assert cell(scores, ["random 50 %"], ["sst2"])["published"] is None
    assert all(
        entry["published"] is None for row in drops["cells"] for entry in row
    )  # it names no file


def test_published_numbers_of_several_models_are_not_mixed(tmp_path):
    numbers = (
        NUMBERS + "third/model,sst2,en,en,random 50,50,33.0\na/model,sst2,en,en,none,0,44.0\n"
        "b/model,sst2,en,en,none,0,55.0\n"
    )
    scores, _ = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": numbers}))
    assert (
        cell(scores, ["random 50 %"], ["sst2"])["published"] is None
    )  # two models, neither of them ours
    assert cell(scores, ["none"], ["sst2"])["published"] == 44.0  # two models, one of them ours


@pytest.mark.parametrize(
    ("row", "same"),
    [
        ("a/model,mnli,en", True),
        ("model,mnli,en", True),  # as a paper writes it
        ("b/model,mnli,en", False),
        ("a/model,rte,en", False),
        ("a/model,mnli,de", False),
    ],
)
def test_published_numbers_of_another_setting_are_not_shown(tmp_path, row, same):
    numbers = f"model,task,source,remove,value\n{row},none,80.0\n"
    scores, _ = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": numbers}))
    assert ("The published numbers are not shown" in scores["note"]) != same
    published = {entry["published"] for cells in scores["cells"] for entry in cells}
    assert published == ({None, 80.0} if same else {None})


def test_drops_are_against_the_mean_of_the_unpruned_seeds(tmp_path):
    """One of them may be lucky; and a seed that stands in two parts of a recipe counts once."""
    recipe = (
        "steps: [prune, finetune, evaluate]\n"
        "fixed: {model: a/m, task: mnli, source: en, splits: dev}\naxes:\n"
    )
    recipe += (
        "  - {remove: [none, {random: [50]}], draw: [0, 1]}\n  - {remove: [none], seed: [1, 2]}\n"
    )
    recipe += (
        "tables: [{title: t, kind: drop, rows: remove, columns: task, mean_over: [draw, seed]}]\n"
    )
    scores = {0: 0.9, 1: 0.6, 2: 0.6}

    def outcome(trial, labels):
        return done(
            trial,
            {"en/dev/accuracy": 0.63 if trial.get("remove") else scores[trial.get("seed", 0)]},
        )

    (drops,) = tables(study(tmp_path, recipe, outcome))
    assert cell(drops, ["random 50 %"], ["mnli"])["ours"] == pytest.approx(10)  # of 70, not of 90


def test_published_drops_come_of_published_scores(tmp_path):
    recipe = DRAWN.replace("kind: drop,", "kind: drop, published: numbers.csv,")
    _, drops = tables(study(tmp_path, recipe, drawn, {"numbers.csv": NUMBERS}))
    assert cell(drops, ["random 50 %"], ["mnli"])["published"] == pytest.approx(
        100 * (83.69 - 82) / 83.69, abs=1e-4
    )
    assert cell(drops, ["random 50 %"], ["sst2"])["published"] is None  # nothing unpruned beside it


def test_missing_and_failed_cells_are_marked(tmp_path):
    def patchy(trial, labels):
        if trial.get("task") == "sst2":
            return (
                replace(drawn(trial, labels), state="failed", metrics={}, error="boom")
                if trial.get("remove")
                else None
            )
        return None if trial.get("draw") == 2 else drawn(trial, labels)

    scores, _ = tables(study(tmp_path, DRAWN, patchy))
    states = {
        (row[0], column[0]): cell(scores, row, column)["state"]
        for row in scores["rows"]
        for column in scores["columns"]
    }
    assert states == {
        ("none", "mnli"): "done",
        ("random 50 %", "mnli"): "partial",
        ("none", "sst2"): "missing",
        ("random 50 %", "sst2"): "failed",
    }
    assert cell(scores, ["random 50 %"], ["mnli"])["ours"] == pytest.approx(71)
    assert cell(scores, ["random 50 %"], ["sst2"])["ours"] is None
