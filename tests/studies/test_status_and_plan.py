"""Status, plan, frame and export report what the records say; and the commands that print them."""

import json
import sys
from pathlib import Path

import pytest
from small_study import run_free
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.cli._progress import log_lines
from deadhead.errors import MissingExtra
from deadhead.results.frame import frame
from deadhead.studies import load, plan, status, summaries
from deadhead.studies.execution.processes import environment, gpus
from deadhead.studies.plan import usual_workers

TOTAL = 2 * (1 + 4 * 4)


@pytest.fixture
def study(search_file, tmp_path):
    run_free(search_file, tmp_path / "s")
    return tmp_path / "s"


def test_status_counts(study, search_file):
    results = status(study)
    assert (results.total, results.done, results.left, results.active, results.eta) == (
        TOTAL,
        TOTAL,
        0,
        False,
        0.0,
    )
    for file in sorted((study / "records").iterdir())[:3]:
        file.unlink()
    results = status(study)
    assert (results.done, results.left) == (TOTAL - 3, 3)
    assert results.eta is None  # no run is at work
    run_free(load(search_file, ["seed=[0]"]), study)
    assert status(study).total == TOTAL // 2


def test_frame_is_the_records(study):
    table, known = frame(study), summaries(study)
    assert len(table) == TOTAL
    row = table[(table["arm"] == "lowest") & (table["k"] == 3) & (table["seed"] == 1)].iloc[0]
    assert row["remove"] == "lowest 3"
    assert (row["strategy"], row["amount"]) == ("lowest", 3)
    assert row["de/test/micro_f1"] == known[row["id"]].metrics["de/test/micro_f1"]
    tall = frame(study, long=True)
    assert len(tall) == 2 * TOTAL
    assert set(tall["language"]) == {"de", "zh"}
    assert tall["value"].sum() == pytest.approx(
        sum(sum(record.metrics.values()) for record in known.values())
    )


def test_missing_pandas_is_reported(study, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pandas"):
        frame(study)


def test_plan_counts(search_file, study):
    recipe = load(search_file)
    results = plan(recipe)
    # per seed: one training of the full model, which is also ranked, then one for every other trial
    assert (results.trials, results.trainings, results.rankings, results.shared) == (
        TOTAL,
        TOTAL,
        2,
        2,
    )
    assert "rough" in results.basis
    kept = plan(recipe, study)
    assert (kept.done, kept.trainings, kept.seconds) == (TOTAL, 0, 0.0)
    assert "records" in kept.basis
    lowest = next(cell.trial for cell in recipe.cells if cell.labels["arm"] == "lowest")
    (study / "records" / f"{lowest.id}.json").unlink()
    again = plan(recipe, study)
    assert (again.done, again.trainings, again.rankings) == (
        TOTAL - 1,
        1,
        0,
    )  # its ranking is there already


def test_commands(study, search_file, tmp_path):
    def say(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert f"search: {TOTAL} done, 0 running, 0 failed, 0 left of {TOTAL} (complete)" in say(
        "status", study
    )
    assert json.loads(say("status", study, "--json"))["done"] == TOTAL
    assert f"{TOTAL} trials, {TOTAL} of them done already" in say(
        "plan", search_file, "--out", study
    )
    assert (
        len(json.loads(say("plan", search_file, "--json", "--trials", "--set", "seed=[7]"))["list"])
        == TOTAL // 2
    )
    assert "the study is not running" in say("stop", study)
    assert f"{TOTAL} rows" in say("export-study", study, "--csv", tmp_path / "x.csv")
    assert "smoke" in say("recipes")
    assert f"{TOTAL} of {TOTAL} done" in say(
        "run", search_file, "--out", study, "--executor", "serial"
    )


def test_a_stop_at_once_says_how_to_resume(search_file, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("deadhead.studies.run", stopped)
    result = CliRunner().invoke(app, ["run", str(search_file), "--out", str(tmp_path / "new")])
    assert result.exit_code == 130
    kept = "finished trials are kept. To resume, repeat the command."
    assert f"interrupted: {kept}" in result.output


def test_what_is_for_ray_alone_is_refused_elsewhere(tmp_path):
    result = CliRunner().invoke(
        app, ["run", "smoke", "--out", str(tmp_path / "s"), "--gpus", "0.25"]
    )
    assert result.exit_code == 2
    assert "only with --executor ray" in result.output
    assert not (tmp_path / "s").exists()


def test_threads_are_fixed_and_gpus_are_divided(monkeypatch):
    monkeypatch.setattr("deadhead.studies.execution.processes.cores", lambda: 8)
    assert (
        environment(0, 2, {})["OMP_NUM_THREADS"]
        == environment(0, 16, {"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"]
        == "1"
    )
    assert [environment(0, n, {})["RAYON_NUM_THREADS"] for n in (2, 16)] == ["4", "1"]
    monkeypatch.setenv("DEADHEAD_THREADS", "3")
    assert environment(0, 2, {})["OMP_NUM_THREADS"] == "3"
    assert [
        environment(i, 3, {"CUDA_VISIBLE_DEVICES": "4,5"})["CUDA_VISIBLE_DEVICES"] for i in range(3)
    ] == ["4", "5", "4"]
    assert gpus({"CUDA_VISIBLE_DEVICES": ""}) == []


def test_the_usual_number_of_workers(search_file, monkeypatch):
    recipe = load(search_file)  # a model nothing is known of: some 3.6 GB each
    planning = sys.modules[
        "deadhead.studies.plan"
    ]  # the name of the module is also that of its function
    monkeypatch.setattr(planning, "cores", lambda: 8)
    monkeypatch.setattr(planning, "gpus", lambda environ: [])
    results = []
    for room in (None, 100e9, 12e9, 1e9):
        monkeypatch.setattr(planning, "_memory", lambda room=room: room)
        results.append(usual_workers(recipe))
    assert results == [8, 8, 3, 1]
    assert (
        usual_workers(load("smoke", ["model=world/encoder", "remove=none"])) == 1
    )  # one trial, one worker
    monkeypatch.setattr(planning, "gpus", lambda environ: ["0", "1", "2"])
    assert usual_workers(recipe) == 3


def test_an_unknown_claim_is_reported_with_its_line(search_file):
    search_file.write_text(search_file.read_text() + "claims:\n  - L-seeds\n  - L-sedes\n")
    message = str(CliRunner().invoke(app, ["plan", str(search_file)]).exception)
    assert f"{search_file}:9: claims[1]: no claim 'L-sedes'. Did you mean 'L-seeds'?" in message


def test_failed_trials_are_not_counted_as_done(tmp_path):
    """Neither by a plan nor by the lines of a run that has nothing left to do."""
    file = tmp_path / "fails.yaml"
    file.write_text(
        "steps: [prune, evaluate]\nfixed: {model: x, source: en, task: pos}\n"
        "axes: {remove: {random: [0, 66]}}\n"
    )
    recipe, heard = load(file), []
    assert run_free(recipe, tmp_path / "s").failed == 1
    results = plan(recipe, tmp_path / "s")
    assert (results.trials, results.done, results.failed) == (2, 1, 1)
    output = CliRunner().invoke(app, ["plan", str(file), "--out", str(tmp_path / "s")]).output
    assert "2 trials, 1 of them done already, 1 failed (`run --retry-failed`" in output
    run_free(recipe, tmp_path / "s", watch=heard.append)
    assert heard[-1]["before"] == {"done": 1, "failed": 1}
    run_free(recipe, tmp_path / "s", watch=heard.append, retry_failed=True)
    assert (heard[-1]["before"], heard[-1]["failed"], heard[-1]["total"]) == (
        {"done": 1, "failed": 0},
        1,
        2,
    )


def test_a_mistake_that_is_explained_comes_without_its_traceback(tmp_path):
    file = tmp_path / "fails.yaml"
    file.write_text(
        "steps: [prune, evaluate]\nfixed: {model: x, source: en, task: pos}\n"
        "axes: {remove: {random: [66, 67]}}\n"
    )
    run_free(file, tmp_path / "s")
    lines = CliRunner().invoke(app, ["status", str(tmp_path / "s"), "--failures"]).output
    assert lines.count("Traceback (most recent call last)") == 1  # a mistake of the code itself
    assert "ValueError: no heads today" in lines
    (explained,) = [text for text in lines.split("\n\n") if "HeadError" in text]
    _, *lines = explained.splitlines()
    assert lines[:2] == ["HeadError: expected 8 heads.", "  Hint: name other heads"]
    stored = Path(lines[2].removeprefix("  The traceback is in ").removesuffix("."))
    assert "Traceback (most recent call last)" in json.loads(stored.read_text())["error"]


def test_the_lines_of_a_run_count_what_failed_before(capsys):
    log_lines()(
        {
            "before": {"done": 3, "failed": 2},
            "done": 4,
            "failed": 1,
            "total": 20,
            "running": {},
            "workers": 1,
        }
    )
    assert "7/20 done, 3 failed, 0 running" in capsys.readouterr().err
