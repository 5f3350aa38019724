"""Removals counted in several ways share an axis by the percent of heads gone, from the records."""

from dataclasses import replace

import pytest
from by_hand import HEADS, study

from deadhead.report.figures.build import figures
from deadhead.studies.store.records import Record

RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/m, task: mnli, source: en, splits: dev}
axes:
  remove: [none, {random: [30, 50]}, {per_layer: ["31", "13", "11"]}, {layers: top 1}]
  draw: [0, 1]
tables: [{title: T, rows: remove, published: numbers.csv}]
figures:
  - {title: All, kind: curve, x: amount, lines: strategy, mean_over: draw}
  - {title: Random, kind: curve, x: amount, mean_over: draw, where: {strategy: [none, random]}}
"""
NUMBERS = "remove,percent,value\nnone,0,81.5\nrandom 50,50,79.0\n"
SCORES = {"30": 0.7, "50": 0.6, "31": 0.5, "13": 0.4, "11": 0.3, "top 1": 0.2}
GONE = {"30": 2, "50": 4, "31": 4, "13": 4, "11": 6, "top 1": 4}  # among eight heads


def outcome(trial, labels):
    amount = next((str(value) for value in (trial.get("remove") or {}).values()), None)
    score = 0.8 if amount is None else SCORES[amount] + trial.get("draw", 0) / 10
    removed = () if amount is None else HEADS[: GONE[amount]]
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics={"en/dev/accuracy": score},
        cost={"heads before": len(HEADS)},
    )


def test_the_percent_of_heads_is_the_axis(tmp_path):
    whole, drawn = figures(study(tmp_path, RECIPE, outcome, {"numbers.csv": NUMBERS}))
    rows = {(row["line"], row["x"]): row for row in whole["spec"]["data"]["values"]}
    assert {at: (row["y"], row["n"]) for at, row in rows.items()} == {
        ("random", 0.0): (pytest.approx(80), 1),
        ("random", 30.0): (
            pytest.approx(75),
            2,
        ),  # as it was asked for, though it comes to two heads of eight
        ("random", 50.0): (pytest.approx(65), 2),
        ("per_layer", 0.0): (pytest.approx(80), 1),
        ("per_layer", 50.0): (
            pytest.approx((50 + 60 + 40 + 50) / 4),
            4,
        ),  # two ways to keep half of them
        ("per_layer", 75.0): (pytest.approx(35), 2),
        ("top", 50.0): (pytest.approx(20), 1),
    }
    assert axis(whole) == axis(drawn) == "% of heads removed"
    assert "Removals of the same percent are one point." in whole["note"]
    assert not any(
        "published" in row for row in rows.values()
    )  # what is printed is of single removals
    assert {row["x"]: row.get("published") for row in drawn["spec"]["data"]["values"]} == {
        0.0: 81.5,
        30.0: None,
        50.0: 79.0,
    }


def test_records_that_do_not_tell_their_heads_leave_the_amounts(tmp_path):
    (whole, _) = figures(
        study(
            tmp_path,
            RECIPE,
            lambda trial, labels: replace(outcome(trial, labels), cost={}),
            {"numbers.csv": NUMBERS},
        )
    )
    assert {row["x"] for row in whole["spec"]["data"]["values"]} >= {"per_layer 31", 50.0, 1.0}


def axis(figure):
    return str(figure["spec"]["layer"][0]["encoding"]["x"]["title"])
