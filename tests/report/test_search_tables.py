"""Tables of searches and of several sources."""

from dataclasses import replace
from statistics import stdev

import pytest
from by_hand import SEARCH, cell, done, searched, study

from deadhead.report.tables.build import tables

LANGUAGES = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, tr, de]}
axes: {remove: [none, {random_k: 2}], seed: [0, 1]}
"""


def by_language(trial, labels):
    first = {"en": 0.9, "tr": 0.5, "de": 0.7}
    loss = 0.1 if trial.get("remove") else 0.0
    scores = {
        language: score - loss + 0.01 * trial.get("seed") for language, score in first.items()
    }
    return done(trial, {f"{lang}/test/micro_f1": score for lang, score in scores.items()})


def test_languages_across_and_means_over_them(tmp_path):
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


def test_a_recipe_without_tables_gets_fitting_ones(tmp_path):
    (table,) = tables(study(tmp_path, LANGUAGES, by_language))
    assert (table["row_names"], table["column_names"]) == (["remove"], ["language"])
    assert cell(table, ["none"], ["de"])["ours"] == pytest.approx(70.5)


def test_splits_as_an_axis_and_as_a_choice(tmp_path):
    recipe = (
        LANGUAGES
        + """\
tables:
  - {title: Both, rows: remove, columns: split, where: {language: en}}
  - {title: First, rows: remove, columns: language, split: test@1}
  - {title: Another metric, rows: remove, columns: language, metric: macro_f1}
"""
    )

    def first(trial, labels):
        record = by_language(trial, labels)
        scores = {**record.metrics, "en/test@1/micro_f1": 0.25, "en/test/macro_f1": 0.125}
        return replace(record, metrics=scores)

    both, one, metric = tables(study(tmp_path, recipe, first))
    assert both["columns"] == [["test"], ["test@1"]]
    assert cell(both, ["none"], ["test"])["ours"] == pytest.approx(90.5)
    assert cell(both, ["none"], ["test@1"])["ours"] == cell(one, ["none"], ["en"])["ours"] == 25
    assert cell(metric, ["none"], ["en"])["ours"] == 12.5
    assert cell(metric, ["none"], ["de"])["state"] == "none"  # was not measured


def test_a_search_beside_its_controls(tmp_path):
    published = (
        "source,target,arm,value,delta\nen,de,full,50.0,\nen,de,lowest,52.5,\n"
        "en,de,random,-1.5,-1.5\n"
    )
    recipe = (
        SEARCH + "tables: [{title: Search, kind: search, rows: [source, target], published: "
        "numbers.csv}]\n"
    )
    (table,) = tables(study(tmp_path, recipe, searched, {"numbers.csv": published}))
    row = ["en", "de"]
    by = {column[0]: cell(table, row, column) for column in table["columns"]}
    assert by["unpruned"]["ours"] == pytest.approx(60)
    assert by["best of k"]["ours"] == pytest.approx(64)
    assert by["gain"]["ours"] == pytest.approx(4)
    assert by["k"]["ours"] == 2
    assert (by["gain, stop rule"]["ours"], by["k, stop rule"]["ours"]) == (
        pytest.approx(4),
        2,
    )  # 61, 64, then 59: stop
    assert "until the score falls for the first time" in table["note"]
    assert (
        by["gain, chosen on dev"]["ours"]
        == by["gain, chosen on source dev"]["ours"]
        == pytest.approx(1)
    )  # k = 1
    assert by["gain of seeds"]["ours"] == pytest.approx(5)
    assert by["gain of random"]["ours"] == pytest.approx(-4)
    assert "gain of highest" not in by
    theirs = {
        name: entry["published"] for name, entry in by.items() if entry["published"] is not None
    }
    assert theirs == {"unpruned": 50.0, "best of k": 52.5, "gain": 2.5, "gain of random": -1.5}
    assert len(by["gain"]["trials"]) == 4  # the unpruned model and three prunings


def test_a_search_with_arms_for_rows(tmp_path):
    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: arm, columns: target}]\n"
    (table,) = tables(study(tmp_path, recipe, searched))
    best = {row[0]: cell(table, row, ["en"])["ours"] for row in table["rows"]}
    assert best == {
        name: pytest.approx(value)
        for name, value in {"full": 70, "lowest": 74, "seeds": 75, "random": 66}.items()
    }


def test_a_search_that_still_runs(tmp_path):
    def some(trial, labels):
        return (
            searched(trial, labels)
            if labels["arm"] in ("full", "lowest") and labels["k"] < 2
            else None
        )

    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: target}]\n"
    (table,) = tables(study(tmp_path, recipe, some))
    by = {column[0]: cell(table, ["de"], column) for column in table["columns"]}
    assert (by["unpruned"]["state"], by["best of k"]["state"]) == ("done", "partial")
    (tmp_path / "none").mkdir()
    (empty,) = tables(study(tmp_path / "none", recipe, lambda trial, labels: None))
    assert {entry["state"] for row in empty["cells"] for entry in row} == {"missing"}


def test_scores_that_are_no_numbers_are_not_there(tmp_path):
    def broken(trial, labels):
        record = searched(trial, labels)
        without_score = (
            {"en/test/micro_f1"}
            if labels["arm"] == "full"
            else {"de/test/micro_f1"}
            if labels["k"] == 2
            else set()
        )
        return replace(
            record,
            metrics={
                name: float("nan") if name in without_score else value
                for name, value in record.metrics.items()
            },
        )

    recipe = SEARCH + "tables: [{title: Search, kind: search, rows: target}]\n"
    (table,) = tables(study(tmp_path, recipe, broken))
    assert cell(table, ["en"], ["best of k"])["ours"] is None  # nothing to hold it against
    assert cell(table, ["de"], ["best of k"])["ours"] == pytest.approx(
        61
    )  # k = 2, the best, has no score


MULTI = """\
steps: [rank_each, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, targets: [en, de, zh], splits: [dev, test]}
axes:
  - {rank.merge: [md, sd], source: [[en, de]], seed: [0, 1]}
  - {source: [en, de], train: [[en, de]], seed: [0, 1]}
search: {lowest: 1..2}
tables: [{title: Several, kind: multi-source, rows: target, published: numbers.csv}]
"""


def test_several_sources(tmp_path):
    def merged(trial, labels):
        if labels["arm"] == "full":
            score = 0.5
        elif isinstance(labels["source"], list):
            score = {"md": 0.6, "sd": 0.4}[labels["rank.merge"]] + 0.01 * labels["k"]
        else:
            score = {"en": 0.55, "de": 0.65}[labels["source"]] - 0.01 * labels["k"]
        score += 0.02 * labels["seed"]
        return done(
            trial,
            {
                f"{lang}/{split}/micro_f1": score
                for lang in ("en", "de", "zh")
                for split in ("dev", "test")
            },
        )

    published = "task,source,target,arm,value\npos,en+de,zh,FL,41.5\npos,de+en,zh,EC,43.5\n"
    (table,) = tables(study(tmp_path, MULTI, merged, {"numbers.csv": published}))
    assert table["rows"] == [["zh"]]  # the language that was not trained on
    assert table["columns"] == [["FL"], ["MD"], ["SD"], ["EC"]]
    (row,) = table["cells"]
    assert [entry["ours"] for entry in row] == [pytest.approx(value) for value in (51, 63, 43, 65)]
    assert [entry["n"] for entry in row] == [2] * 4
    assert [entry["mark"] for entry in row] == [None] * 4
    assert "no unpruned seeds to test against" in table["test"]
    assert [entry["published"] for entry in row] == [41.5, None, None, 43.5]
