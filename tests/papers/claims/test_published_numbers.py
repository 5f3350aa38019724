"""The papers' numbers as stored beside the recipes: all of them, unchanged, and in our words."""

import csv
from statistics import fmean

import pytest

from deadhead.papers.catalogue import published_files
from deadhead.studies.trial import CONTROLS
from deadhead.tasks import task_of
from deadhead.tasks.languages import languages

TABLES = {  # rows and mean of `value`, counted from the printed tables
    "contributions/table1": (18, 24851.2778),
    "contributions/table2": (192, 75.7760),
    "contributions/table3": (192, 66.8585),
    "contributions/table4": (68, 77.9562),
    "contributions/table5": (64, -1.1067),
    "contributions/table6": (40, 64.9390),
    "contributions/text": (72, 11.9265),
    "mbert-prunability/table1": (20, 86.1760),
    "mbert-prunability/text": (16, 109.5484),
    "weak-link/table1": (18, 28.2433),
    "weak-link/table2": (11, 29.0764),
    "weak-link/table3": (13, 28.2992),
    "weak-link/table4": (40, 88.0108),
    "weak-link/table5": (68, 87.8325),
    "weak-link/table6": (24, 87.4704),
    "weak-link/text": (25, 102934.8857),
}


def rows(name):
    with published_files()[f"{name}.csv"].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_there(name):
    values = [float(row["value"]) for row in rows(name)]
    assert (len(values), round(fmean(values), 4)) == TABLES[name]


@pytest.mark.parametrize("name", [name for name in TABLES if not name.endswith("text")])
def test_each_number_is_there_once_and_in_our_words(name):
    values = rows(name)
    other = ("value", "delta", "note")
    labels = {tuple(text for axis, text in row.items() if axis not in other) for row in values}
    assert len(labels) == len(values)
    for row in values:
        assert task_of(row["task"]).name == row["task"]
        assert row.get("arm", "full") in ("full", "lowest", *CONTROLS, "FL", "MD", "SD", "EC")
        sources = row.get("source", "").replace("-", "+").split("+")
        assert {*sources, *row["target"].split("-")} - {""} <= set(languages())
