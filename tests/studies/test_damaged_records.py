"""One damaged record does not hide the others: it is reported, its trial runs again, and no reader
stumbles over it."""

import json
import os

import pytest
from small_study import run_free
from typer.testing import CliRunner
from whole_records import changed, places, whole_study

from deadhead.cli import app
from deadhead.papers.claims import check
from deadhead.report.page.content import content
from deadhead.report.page.html import html
from deadhead.studies import load, plan, status, summaries
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import read as read_record


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "s"
    return whole_study(folder), folder


@pytest.fixture
def file(study):
    """A pruned record of the study, put back after the test."""
    recipe, folder = study
    trial = next(trial for trial in recipe.trials if trial.get("remove"))
    path = folder / "records" / f"{trial.id}.json"
    whole, stat = path.read_bytes(), path.stat()
    yield path
    path.write_bytes(whole)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_any_change_of_a_record_shows(study, file):
    _, folder = study
    stored = json.loads(file.read_text())
    others = {*summaries(folder)} - {file.stem}
    assert len(others) > 5
    for path in places(stored):
        file.write_text(json.dumps(changed(stored, path, ["something", "else"])))
        assert {*summaries(folder)} == others, path
        with pytest.raises(StudyError, match="is damaged"):
            read_record(folder, file.stem)


def test_every_reader_reports_an_edited_number_and_does_not_show_it(study, file, tmp_path):
    recipe, folder = study
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored))  # the twin: formatting is no edit
    assert status(folder).damaged == ()
    file.write_text(json.dumps({**stored, "metrics": dict.fromkeys(stored["metrics"], 0.99)}))
    warning = f"1 record is damaged and not shown: {file.stem}; `deadhead run` runs it again"
    assert plan(recipe, folder).damaged == (file.stem,)
    assert content(folder)["damaged"] == [warning]
    assert warning in html(content(folder))
    for code, text in commands_of(folder, tmp_path):
        assert (code, text.count(warning)) == (0, 1), text
    with pytest.raises(StudyError, match="it was edited: its content does not fit its digest"):
        read_record(folder, file.stem)


def test_a_run_sets_it_aside_and_runs_the_trial_again(search_file, tmp_path):
    recipe, folder = load(search_file), tmp_path / "s"
    run_free(recipe, folder)
    file = sorted((folder / "records").iterdir())[0]
    good = json.loads(file.read_text())
    for nth in ("", "-2"):
        damaged = json.dumps({**good, "removed": 3})
        file.write_text(damaged)
        result = run_free(recipe, folder)
        assert (result.ran, result.left) == (1, 0)
        edited = "it was edited: its content does not fit its digest"
        moved = f"damaged/{file.stem}{nth}.json"
        assert result.reports == (
            f"records/{file.name} was damaged ({edited}): moved to {moved}, and the trial runs "
            "again",
        )
        assert (folder / moved).read_text() == damaged
        timed = {"cost": None, "digest": None}
        assert {**json.loads(file.read_text()), **timed} == {**good, **timed}
        assert status(folder).damaged == ()


def commands_of(folder, out):
    """What every command that reads a study says: its exit code and its output."""
    for command in (
        ["status", str(folder)],
        ["plan", str(folder.parent / "whole.yaml"), "--out", str(folder)],
        ["report", str(folder), "--out", str(out / "page.html")],
        ["claims", str(folder)],
        ["export-study", str(folder), "--csv", str(out / "x.csv")],
    ):
        output = CliRunner().invoke(app, command)
        yield output.exit_code, " ".join(f"{output.output} {output.exception}".split())


def test_swapped_ids_in_study_json_are_refused(search_file, tmp_path):
    recipe, folder = load(search_file), tmp_path / "s"
    run_free(recipe, folder)
    file = folder / "study.json"
    whole = json.loads(file.read_text())
    cells = [list(cell) for cell in whole["cells"]]
    cells[0][1], cells[1][1] = cells[1][1], cells[0][1]
    assert cells != whole["cells"]
    file.write_text(json.dumps({**whole, "cells": cells}))
    warning = "study.json was edited: it does not fit its digest"
    for read in (status, content, check):
        with pytest.raises(StudyError, match=warning):
            read(folder)
    result = run_free(recipe, folder)
    assert result.reports == (f"{warning}; written again from the recipe",)
    assert (result.ran, json.loads(file.read_text())) == (0, whole)
