"""Scores of a study whose index somebody damaged: what a line says is taken only where it is as deadhead writes it, else the record is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_study import WORK

from deadhead.results import Study
from deadhead.studies import load, run, summaries
from deadhead.studies.store.records import _digest

TRIAL = 4  # its place in a line of the index


@pytest.fixture
def study(search_file: Path, tmp_path: Path) -> Path:
    run(load(search_file), tmp_path / "s", executor="serial", work=WORK)
    return tmp_path / "s"


def damage(study: Path, place: int, field: str, value: Any) -> None:
    """Put a value into every line of the index; the files that the lines are about stay as they were."""
    index = study / "index.jsonl"
    rows = [json.loads(line)[:-1] for line in index.read_text().splitlines()]
    changed = [
        [*row[:place], {**row[place], field: value} if field else value, *row[place + 1 :]]
        for row in rows
    ]
    contents = [json.dumps(row)[:-1].encode() for row in changed]
    index.write_bytes(b"".join(content + _digest(content) + b"\n" for content in contents))


def everything(folder: Path) -> tuple[Any, ...]:
    study = Study.open(folder)
    return study.all_scores(), study.searches


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ["m"]),
        ("seed", [0]),
        ("draw", {"a": 1}),
        ("targets", [["de"], ["zh"]]),
        ("source", {"en": 1}),
        ("splits", [None]),
        ("data", ["x"]),
        ("data", {"parts": [1]}),
        ("rank", ["gradient"]),
        ("remove", [3]),
    ],
)
def test_a_field_of_another_type_is_not_read_from_the_index(
    study: Path, field: str, value: Any
) -> None:
    whole = everything(study)
    damage(study, TRIAL, field, value)
    assert everything(study) == whole
    assert all(whole)


@pytest.mark.parametrize(
    ("place", "value"), [(0, ["id"]), (0, None), (3, ["done"]), (5, []), (6, None)]
)
def test_a_part_of_another_type_is_not_read_from_the_index(
    study: Path, place: int, value: Any
) -> None:
    whole = summaries(study)
    damage(study, place, "", value)
    assert summaries(study) == whole


def test_a_field_of_the_right_type_is_read(study: Path) -> None:
    damage(study, TRIAL, "model", "another")
    assert {score.model for score in Study.open(study).scores} == {"another"}
