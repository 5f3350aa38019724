"""TASKS, KINDS, METRICS and FORMATS agree with everything that lists their names."""

import re
from pathlib import Path
from typing import Any

import pytest

from deadhead.tasks import KINDS, METRICS, TASKS, task_of
from deadhead.tasks.locating.small_world import ROW_OF, WORLD_TASKS
from deadhead.tasks.reading import records
from deadhead.world import TASKS as OF_THE_WORLD

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_names_a_kind_and_fitting_metrics(name):
    task = TASKS[name]
    assert (task.name, task_of(name)) == (name, task)
    assert "-" not in name  # a dash names a corpus of the task
    assert {METRICS[metric].compares for metric in task.metrics} <= set(KINDS[task.kind].compares)
    assert len(set(task.metrics)) == len(task.metrics)
    assert task.train_on in ("", *TASKS)
    assert bool(task.texts) is (task.traits.label_unit != "text")
    assert task.traits.language_pair is all("-" in lang for lang in task.languages)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_metrics_and_a_way_to_read_and_encode(name):
    kind = KINDS[name]
    assert {METRICS[metric].compares for metric in kind.metrics} <= set(kind.compares)
    assert kind.label_unit in (*records.ROW_OF, "query")  # whose rows are in three files
    assert any(task.kind == name for task in TASKS.values())


def test_the_units_of_labels_are_the_same_everywhere():
    units = {kind.label_unit for kind in KINDS.values()}
    assert units - {"query"} == set(records.ROW_OF)
    # the small world has no multiple choice, and nothing to find, to compare or to search
    assert units - {"option", "span", "pair", "query"} == set(ROW_OF)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_can_be_printed_and_is_used(name):
    metric = METRICS[name]
    assert metric.label == metric.label.strip() != ""
    assert metric.scale > 0
    assert any(metric.compares in kind.compares for kind in KINDS.values())
    assert [m.label for m in METRICS.values()].count(metric.label) == 1
    gold: Any = [["a b c d"]] if metric.compares == "texts" else [["B-X", "O"]]
    best = 100.0
    if metric.compares == "options":  # the three that are chosen
        gold = [["0"] * 3]
    if metric.compares == "likelihoods":  # a model that is certain, and right
        gold = [[0.0, 4, 4, 2, 8]]
        best = 1.0 if metric.lower_is_better else 100.0
    if metric.compares == "numbers":
        gold = [[0.0], [2.5], [2.5], [5.0]]
    if metric.compares == "rankings":
        predictions = [["a", "b"]]
        assert metric([("q", "b", "1", "a", "2")], predictions) * metric.scale == pytest.approx(
            best
        )
        return
    assert metric(gold, gold) * metric.scale == pytest.approx(best)


def test_the_small_world_has_no_other_tasks():
    assert set(WORLD_TASKS) <= set(TASKS)
    assert set(WORLD_TASKS.values()) == set(OF_THE_WORLD)


def test_the_page_lists_every_task_and_metric():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}
    assert set(TASKS) <= named
    assert {metric for task in TASKS.values() for metric in task.metrics} <= named | {
        "span_precision",
        "span_recall",
    }
