"""Tables of studies written by hand: every number is computed here too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from by_hand import DRAWN, NUMBERS, SEARCH, drawn, searched, study

from deadhead.report.labels import title_for
from deadhead.report.tables.build import tables
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial


def cell(table: Mapping[str, Any], row: list[Any], column: list[Any]) -> dict[str, Any]:
    return dict(table["cells"][table["rows"].index(row)][table["columns"].index(column)])


def test_means_spread_and_published_by_hand(tmp_path: Path) -> None:
    made = study(tmp_path, DRAWN, drawn, {"numbers.csv": NUMBERS})
    scores, _ = tables(made)
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


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("F1", "Accuracy"),
        ("F1 after one epoch", "Accuracy after one epoch"),
        ("Accuracy", "Accuracy"),
        ("accuracy on GLUE", "accuracy on GLUE"),
        ("Half of the heads", "Half of the heads"),
    ],
)
def test_a_title_names_the_metric_that_the_table_shows(
    tmp_path: Path, title: str, shown: str
) -> None:
    """GLUE is scored by accuracy, whatever an older recipe calls it."""
    first, *_ = tables(
        study(
            tmp_path,
            DRAWN.replace("title: Scores", f"title: {title}"),
            drawn,
            {"numbers.csv": NUMBERS},
        )
    )
    assert (first["title"], first["note"].startswith("Accuracy on ")) == (shown, True)


def test_a_title_has_one_name_for_a_metric() -> None:
    assert title_for("Accuracy after the cut", ["micro_f1"]) == "Micro F1 after the cut"
    assert (
        title_for("F1, unpruned and best of 12", ["span_f1"]) == "Span F1, unpruned and best of 12"
    )
    assert title_for("Micro F1 by heads", ["micro_f1"]) == "Micro F1 by heads"
    assert title_for("F1", ["micro_f1", "span_f1"]) == "F1"  # it has several
    assert title_for("F1x", ["micro_f1"]) == "F1x"


def test_a_table_says_where_data_was_short(tmp_path: Path) -> None:
    def short(trial: Trial, labels: Mapping[str, Any]) -> Record:
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


def test_cells_name_fewer_trials_where_all_would_name_very_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study(tmp_path, DRAWN, drawn)
    whole = [one for table in tables(made) for row in table["cells"] for one in row]
    assert (
        [len(one["trials"]) for one in whole]
        == [one["records"] for one in whole]
        == [1, 1, 3, 3] * 2
    )
    monkeypatch.setattr("deadhead.report.tables.build.MOST_LISTED", 15)  # of 16, in 8 cells
    cut = [one for table in tables(made) for row in table["cells"] for one in row]
    assert [one["trials"] for one in cut] == [one["trials"][:1] for one in whole]
    assert [one["numbers"] for one in cut] == [one["numbers"][:1] for one in whole]
    listed = {"trials": (), "numbers": ()}
    assert [{**one, **listed} for one in cut] == [
        {**one, **listed} for one in whole
    ]  # means and counts are as they were


def test_published_rows_agree_in_every_axis_of_the_table(tmp_path: Path) -> None:
    scores, drops = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": NUMBERS}))
    assert cell(scores, ["none"], ["sst2"])["published"] is None  # no row has this task and removal
    assert (
        cell(scores, ["random 50 %"], ["sst2"])["published"] == 11.0
    )  # the model is no axis of the table
    assert all(
        one["published"] is None for row in drops["cells"] for one in row
    )  # it names no file


def test_published_numbers_of_several_models_are_not_mixed(tmp_path: Path) -> None:
    numbers = (
        NUMBERS
        + "third/model,sst2,en,en,random 50,50,33.0\na/model,sst2,en,en,none,0,44.0\nb/model,sst2,en,en,none,0,55.0\n"
    )
    scores, _ = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": numbers}))
    assert (
        cell(scores, ["random 50 %"], ["sst2"])["published"] is None
    )  # two models, neither of them ours
    assert cell(scores, ["none"], ["sst2"])["published"] == 44.0  # two models, one of them ours


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a/model,mnli,en", ""),
        ("b/model,mnli,en", " Published numbers are of another model than here: b/model."),
        (
            "b/model,rte,en",
            " Published numbers are of another model and task than here: b/model, rte.",
        ),
        (
            "b/model,rte,de",
            " Published numbers are of another model, task and source than here: b/model, rte, de.",
        ),
    ],
)
def test_a_table_names_the_model_of_published_numbers(tmp_path: Path, row: str, told: str) -> None:
    scores, _ = tables(
        study(
            tmp_path,
            DRAWN,
            drawn,
            {"numbers.csv": f"model,task,source,remove,value\n{row},none,80.0\n"},
        )
    )
    assert scores["note"].partition(" Means over draw, with the standard deviation.")[2] == told


def test_drops_are_against_the_mean_of_the_unpruned_seeds(tmp_path: Path) -> None:
    """One of them may be lucky; and a seed that stands in two parts of a recipe counts once."""
    recipe = "steps: [prune, finetune, evaluate]\nfixed: {model: a/m, task: mnli, source: en, splits: dev}\naxes:\n"
    recipe += (
        "  - {remove: [none, {random: [50]}], draw: [0, 1]}\n  - {remove: [none], seed: [1, 2]}\n"
    )
    recipe += (
        "tables: [{title: t, kind: drop, rows: remove, columns: task, mean_over: [draw, seed]}]\n"
    )
    scores = {0: 0.9, 1: 0.6, 2: 0.6}

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={
                "en/dev/accuracy": 0.63 if trial.get("remove") else scores[trial.get("seed", 0)]
            },
        )

    (drops,) = tables(study(tmp_path, recipe, outcome))
    assert cell(drops, ["random 50 %"], ["mnli"])["ours"] == pytest.approx(10)  # of 70, not of 90


def test_relative_drops(tmp_path: Path) -> None:
    _, drops = tables(study(tmp_path, DRAWN, drawn))
    pruned = cell(drops, ["random 50 %"], ["mnli"])
    each = [100 * (80 - score) / 80 for score in (70, 72, 74)]
    assert pruned["ours"] == pytest.approx(sum(each) / 3)
    assert pruned["spread"] == pytest.approx(stdev(each), abs=1e-4)
    assert cell(drops, ["none"], ["mnli"])["ours"] == 0


def test_published_drops_come_of_published_scores(tmp_path: Path) -> None:
    recipe = DRAWN.replace("kind: drop,", "kind: drop, published: numbers.csv,")
    _, drops = tables(study(tmp_path, recipe, drawn, {"numbers.csv": NUMBERS}))
    assert cell(drops, ["random 50 %"], ["mnli"])["published"] == pytest.approx(
        100 * (83.69 - 82) / 83.69, abs=1e-4
    )
    assert cell(drops, ["random 50 %"], ["sst2"])["published"] is None  # nothing unpruned beside it


def test_missing_and_failed_cells_are_marked(tmp_path: Path) -> None:
    def patchy(trial: Trial, labels: Mapping[str, Any]) -> Record | None:
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


def test_a_study_without_records(tmp_path: Path) -> None:
    scores, drops = tables(study(tmp_path, DRAWN, lambda trial, labels: None))
    assert {one["state"] for table in (scores, drops) for row in table["cells"] for one in row} == {
        "missing"
    }


def test_cells_the_recipe_does_not_have(tmp_path: Path) -> None:
    recipe = DRAWN.replace("axes:\n  task: [mnli, sst2]\n  remove: {random: [0, 50]}\n  draw: [0, 1, 2]\n", """axes:
  - {task: [mnli], remove: {random: [0, 50]}, draw: [0, 1, 2]}
  - {task: [sst2], remove: none}
""")  # fmt: skip
    scores, _ = tables(study(tmp_path, recipe, drawn))
    assert cell(scores, ["random 50 %"], ["sst2"])["state"] == "none"
    assert cell(scores, ["none"], ["sst2"])["ours"] == 90


LANGUAGES = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, tr, de]}
axes: {remove: [none, {random_k: 2}], seed: [0, 1]}
"""


def by_language(trial: Trial, labels: Mapping[str, Any]) -> Record:
    first = {"en": 0.9, "tr": 0.5, "de": 0.7}
    loss = 0.1 if trial.get("remove") else 0.0
    scores = {
        language: score - loss + 0.01 * trial.get("seed") for language, score in first.items()
    }
    return Record(
        trial=trial,
        state="done",
        removed=(),
        metrics={f"{lang}/test/micro_f1": score for lang, score in scores.items()},
    )


def test_languages_across_and_means_over_them(tmp_path: Path) -> None:
    recipe = (
        LANGUAGES
        + """\
tables:
  - {title: By language, rows: remove, columns: language, mean_over: seed}
  - {title: Over languages, rows: remove, columns: task}
  - {title: Some, rows: remove, columns: setting, where: {language: [tr, de]}}
"""
    )
    by, over, some = tables(study(tmp_path, recipe, by_language))
    assert by["columns"] == [["en"], ["tr"], ["de"]]  # the recipe's order
    assert cell(by, ["random 2 heads"], ["tr"])["ours"] == pytest.approx(40.5)
    whole = cell(over, ["none"], ["pos"])
    assert (whole["ours"], whole["n"]) == (
        pytest.approx((90 + 50 + 70) / 3 + 0.5),
        2,
    )  # languages within a trial are no repetitions
    assert whole["spread"] == pytest.approx(stdev([0, 1]), abs=1e-4)
    assert some["columns"] == [["cross-lingual"]]
    assert cell(some, ["none"], ["cross-lingual"])["ours"] == pytest.approx(60.5)


def test_a_recipe_without_tables_gets_fitting_ones(tmp_path: Path) -> None:
    (made,) = tables(study(tmp_path, LANGUAGES, by_language))
    assert (made["row_names"], made["column_names"]) == (["remove"], ["language"])
    assert cell(made, ["none"], ["de"])["ours"] == pytest.approx(70.5)


def test_bleu_is_not_a_share(tmp_path: Path) -> None:
    recipe = """\
steps: [finetune, evaluate]
fixed: {model: a/model, task: wmt14, source: en-de}
axes: {seed: [0]}
tables: [{title: BLEU, rows: model, columns: language}]
"""
    (made,) = tables(
        study(
            tmp_path,
            recipe,
            lambda trial, labels: Record(
                trial=trial, state="done", removed=(), metrics={"en-de/test/bleu": 27.95}
            ),
        )
    )
    assert made["cells"][0][0]["ours"] == 27.95


def test_splits_as_an_axis_and_as_a_choice(tmp_path: Path) -> None:
    recipe = (
        LANGUAGES
        + """\
tables:
  - {title: Both, rows: remove, columns: split, where: {language: en}}
  - {title: First, rows: remove, columns: language, split: test@1}
  - {title: Another metric, rows: remove, columns: language, metric: macro_f1}
"""
    )

    def first(trial: Trial, labels: Mapping[str, Any]) -> Record:
        record = by_language(trial, labels)
        scores = {**record.metrics, "en/test@1/micro_f1": 0.25, "en/test/macro_f1": 0.125}
        return replace(record, metrics=scores)

    both, one, metric = tables(study(tmp_path, recipe, first))
    assert both["columns"] == [["test"], ["test@1"]]
    assert cell(both, ["none"], ["test"])["ours"] == pytest.approx(90.5)
    assert cell(both, ["none"], ["test@1"])["ours"] == cell(one, ["none"], ["en"])["ours"] == 25
    assert cell(metric, ["none"], ["en"])["ours"] == 12.5
    assert cell(metric, ["none"], ["de"])["state"] == "none"  # was not measured


def test_a_search_beside_its_controls(tmp_path: Path) -> None:
    published = "source,target,arm,value,delta\nen,de,full,50.0,\nen,de,lowest,52.5,\nen,de,random,-1.5,-1.5\n"
    recipe = (
        SEARCH
        + "tables: [{title: Search, kind: search, rows: [source, target], published: numbers.csv}]\n"
    )
    (made,) = tables(study(tmp_path, recipe, searched, {"numbers.csv": published}))
    row = ["en", "de"]
    by = {column[0]: cell(made, row, column) for column in made["columns"]}
    assert by["unpruned"]["ours"] == pytest.approx(60)
    assert by["best of k"]["ours"] == pytest.approx(64)
    assert by["gain"]["ours"] == pytest.approx(4)
    assert by["k"]["ours"] == 2
    assert (by["gain, stop rule"]["ours"], by["k, stop rule"]["ours"]) == (
        pytest.approx(4),
        2,
    )  # 61, 64, then 59: stop
    assert "until the score falls for the first time" in made["note"]
    assert (
        by["gain, chosen on dev"]["ours"]
        == by["gain, chosen on source dev"]["ours"]
        == pytest.approx(1)
    )  # k = 1
    assert by["gain of seeds"]["ours"] == pytest.approx(5)
    assert by["gain of random"]["ours"] == pytest.approx(-4)
    assert "gain of highest" not in by
    theirs = {name: one["published"] for name, one in by.items() if one["published"] is not None}
    assert theirs == {"unpruned": 50.0, "best of k": 52.5, "gain": 2.5, "gain of random": -1.5}
    assert len(by["gain"]["trials"]) == 4  # the unpruned model and three prunings


def test_a_search_with_arms_for_rows(tmp_path: Path) -> None:
    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: arm, columns: target}]\n"
    (made,) = tables(study(tmp_path, recipe, searched))
    best = {row[0]: cell(made, row, ["en"])["ours"] for row in made["rows"]}
    assert best == {
        name: pytest.approx(value)
        for name, value in {"full": 70, "lowest": 74, "seeds": 75, "random": 66}.items()
    }


def test_a_search_that_still_runs(tmp_path: Path) -> None:
    def some(trial: Trial, labels: Mapping[str, Any]) -> Record | None:
        return (
            searched(trial, labels)
            if labels["arm"] in ("full", "lowest") and labels["k"] < 2
            else None
        )

    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: target}]\n"
    (made,) = tables(study(tmp_path, recipe, some))
    by = {column[0]: cell(made, ["de"], column) for column in made["columns"]}
    assert (by["unpruned"]["state"], by["best of k"]["state"]) == ("done", "partial")
    (tmp_path / "none").mkdir()
    (empty,) = tables(study(tmp_path / "none", recipe, lambda trial, labels: None))
    assert {one["state"] for row in empty["cells"] for one in row} == {"missing"}


def test_scores_that_are_no_numbers_are_not_there(tmp_path: Path) -> None:
    def broken(trial: Trial, labels: Mapping[str, Any]) -> Record:
        record = searched(trial, labels)
        lost = (
            {"en/test/micro_f1"}
            if labels["arm"] == "full"
            else {"de/test/micro_f1"}
            if labels["k"] == 2
            else set()
        )
        return replace(
            record,
            metrics={
                name: float("nan") if name in lost else value
                for name, value in record.metrics.items()
            },
        )

    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: target}]\n"
    (made,) = tables(study(tmp_path, recipe, broken))
    assert cell(made, ["en"], ["best of k"])["ours"] is None  # nothing to hold it against
    assert cell(made, ["de"], ["best of k"])["ours"] == pytest.approx(
        61
    )  # k = 2, the best, has no score


MULTI = """\
steps: [rank_each, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, targets: [en, de, zh], splits: [dev, test]}
axes:
  - {rank.merge: [md, sd], source: [[en, de]]}
  - {source: [en, de], train: [[en, de]]}
search: {lowest: 1..2}
tables: [{title: Several, kind: multi-source, rows: target, published: numbers.csv}]
"""


def test_several_sources(tmp_path: Path) -> None:
    def merged(trial: Trial, labels: Mapping[str, Any]) -> Record:
        if labels["arm"] == "full":
            score = 0.5
        elif isinstance(labels["source"], list):
            score = {"md": 0.6, "sd": 0.4}[labels["rank.merge"]] + 0.01 * labels["k"]
        else:
            score = {"en": 0.55, "de": 0.65}[labels["source"]] - 0.01 * labels["k"]
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={
                f"{lang}/{split}/micro_f1": score
                for lang in ("en", "de", "zh")
                for split in ("dev", "test")
            },
        )

    published = "task,source,target,arm,value\npos,en+de,zh,FL,41.5\npos,de+en,zh,EC,43.5\n"
    (made,) = tables(study(tmp_path, MULTI, merged, {"numbers.csv": published}))
    assert made["rows"] == [["zh"]]  # the language that was not trained on
    assert made["columns"] == [["FL"], ["MD"], ["SD"], ["EC"]]
    (row,) = made["cells"]
    assert [one["ours"] for one in row] == [pytest.approx(value) for value in (50, 62, 42, 64)]
    assert [one["mark"] for one in row] == [None] * 4
    assert "no unpruned seeds to test against" in made["test"]
    assert [one["published"] for one in row] == [41.5, None, None, 43.5]


def test_a_search_names_data_that_was_short(tmp_path: Path) -> None:
    def short(trial: Trial, labels: Mapping[str, Any]) -> Record:
        return replace(
            searched(trial, labels),
            details={"shortfalls": {"en train": {"expected": 2_500_000, "got": 1_486_965}}},
        )

    (made,) = tables(study(tmp_path, SEARCH, short))
    assert (
        "Less data than the recipe asks for: pos en train 1,486,965 of 2,500,000 rows."
        in made["note"]
    )
