"""One damaged record does not hide the others: it is reported, its trial runs again, and no reader stumbles over it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from whole_records import CONTENT, changed, places, record_of, whole_study

from deadhead.claims import check
from deadhead.cli import app
from deadhead.report.page.content import content
from deadhead.report.page.html import html
from deadhead.report.page.library import Library
from deadhead.results import Study, arms
from deadhead.results.frame import rows
from deadhead.studies import load, plan, run, status, summaries
from deadhead.studies.recipe.load import Recipe
from deadhead.studies.store.folder import StudyError
from deadhead.studies.trial import Trial

DEEP: Any = []
for _ in range(40):
    DEEP = [DEEP]
WRONG: tuple[Any, ...] = (
    None,
    [],
    {},
    "x",
    True,
    -1,
    1.5,
    10**400,
    float("nan"),
    float("inf"),
    1e308,
    [[1]],
    {"x": {"y": [None]}},
    DEEP,
)

READERS: dict[str, Callable[[Path], Any]] = {
    "status": status,
    "scores": lambda folder: (
        Study.open(folder).all_scores(),
        Study.open(folder).searches,
        arms(folder),
    ),
    "frame": lambda folder: list(rows(folder)),
    "claims": check,
    "page": lambda folder: html(content(folder)),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    folder = tmp_path_factory.mktemp("whole") / "s"
    return whole_study(folder), folder


@pytest.fixture
def file(study: tuple[Recipe, Path]) -> Iterator[Path]:
    """A pruned record of the study, put back after the test."""
    recipe, folder = study
    trial = next(trial for trial in recipe.trials if trial.get("remove"))
    path = folder / "records" / f"{trial.id}.json"
    whole, stat = path.read_bytes(), path.stat()
    yield path
    path.write_bytes(whole)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


PLACES = list(places(json.loads(record_of(Trial(CONTENT)).to_json())))
FREE = (
    ("details", "data notes"),
    ("details", "best epoch"),
)  # shown as they are; of these only what cannot be shown is refused
ACCEPTED = 3  # values of a place that are as deadhead writes them and go through every reader, to save time


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_field_of_the_wrong_type_stops_no_reader(
    study: tuple[Recipe, Path], file: Path, path: tuple[Any, ...]
) -> None:
    _, folder = study
    stored = json.loads(file.read_text())
    others = {name for name in summaries(folder) if name != file.stem}
    assert len(others) > 5
    refused = accepted = 0
    for value in WRONG:
        file.write_text(json.dumps(changed(stored, path, value)))
        known = summaries(folder)
        assert others <= known.keys()
        if file.stem not in known:  # absent for every reader
            refused += 1
            if refused > 1:
                continue
            assert status(folder).damaged == (file.stem,)
        else:
            accepted += 1
            if accepted > ACCEPTED:
                continue
        for name, read in READERS.items():
            if name != "claims":  # the page judges them too
                read(folder)
    assert refused or path[0] == "format" or path[:2] in FREE


def test_every_reader_reports_it(study: tuple[Recipe, Path], file: Path, tmp_path: Path) -> None:
    recipe, folder = study
    file.write_text(json.dumps({**json.loads(file.read_text()), "epochs": 3}))
    warning = f"1 record is damaged and not shown: {file.stem}; `deadhead run` runs it again"
    assert plan(recipe, folder).damaged == (file.stem,)
    assert content(folder)["damaged"] == [warning]
    assert warning in html(content(folder))
    assert Library(folder).payload([])["studies"][0]["damaged"] == [warning]
    for command in (
        ["status", str(folder)],
        ["plan", str(folder.parent / "whole.yaml"), "--out", str(folder)],
        ["report", str(folder), "--out", str(tmp_path / "page.html")],
        ["claims", str(folder)],
        ["export", str(folder), "--csv", str(tmp_path / "x.csv")],
    ):
        output = CliRunner().invoke(app, command)
        assert output.exit_code == 0, (command, output.output)
        assert output.output.count(warning) == 1, (command, output.output)


def test_many_are_counted(tmp_path: Path) -> None:
    whole_study(tmp_path / "s")
    ids = sorted(summaries(tmp_path / "s"))
    for name in ids[:7]:
        (tmp_path / "s" / "records" / f"{name}.json").write_text("{}")
    output = CliRunner().invoke(app, ["status", str(tmp_path / "s")])
    assert (
        f"7 records are damaged and not shown: {', '.join(ids[:5])} and 2 more; `deadhead run` runs them again"
        in output.output
    )


def test_a_run_sets_it_aside_and_runs_the_trial_again(search_file: Path, tmp_path: Path) -> None:
    recipe, folder = load(search_file), tmp_path / "s"
    run(recipe, folder, executor="serial", work="trivial:work")
    file = sorted((folder / "records").iterdir())[0]
    good = json.loads(file.read_text())
    for nth in ("", "-2"):
        damaged = json.dumps({**good, "removed": 10**400})
        file.write_text(damaged)
        result = run(recipe, folder, executor="serial", work="trivial:work")
        assert (result.ran, result.left) == (1, 0)
        moved = f"damaged/{file.stem}{nth}.json"
        assert result.reports == (
            f"records/{file.name} was damaged (removed is not as deadhead writes it): moved to {moved}, and the trial runs again",
        )
        assert (folder / moved).read_text() == damaged
        assert {**json.loads(file.read_text()), "cost": None} == {**good, "cost": None}
        assert status(folder).damaged == ()


def test_a_record_damaged_behind_the_index_is_reported(
    study: tuple[Recipe, Path], file: Path
) -> None:
    """Of the same size and time: its scores come from the index, the record itself is not shown."""
    _, folder = study
    stat = file.stat()
    file.write_text(file.read_text().replace('"error": null', '"error": 1234'))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    results = content(folder)
    assert file.stem not in results["records"]
    (warning,) = results["damaged"]
    assert file.stem in warning
    assert "index.jsonl" in warning
    check(folder)


OF_A_STUDY = [
    ("recipe", {"fixed": float("nan")}),
    ("recipe", {"tables": [{"rows": 3}]}),
    ("recipe", {"figures": [{"kind": []}]}),
    ("recipe", {"claims": 3}),
    ("cells", [[{"source": 3}, "x"]]),
    ("cells", [[{"arm": "lowest", "k": 10**400}, "x"]]),
    ("cells", [[{"remove": {"random": float("nan")}}, "x"]]),
]


@pytest.mark.parametrize(("part", "value"), OF_A_STUDY)
def test_a_study_that_makes_no_sense_is_refused_with_one_error(
    tmp_path: Path, part: str, value: Any
) -> None:
    whole_study(tmp_path / "s")
    file = tmp_path / "s" / "study.json"
    stored = json.loads(file.read_text())
    file.write_text(
        json.dumps(
            {
                **stored,
                part: {**stored[part], **value} if part == "recipe" else [*stored[part], *value],
            }
        )
    )
    for read in READERS.values():
        with pytest.raises(StudyError, match="is not a study"):
            read(tmp_path / "s")
