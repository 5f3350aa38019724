"""Processes that were stopped and trials that take too long are noticed, ended, run again and
reported."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from small_study import WORK, run_free, stable_records
from test_crash import workers_of

from deadhead.studies import load, run, status
from deadhead.studies.execution import processes
from deadhead.studies.store import folder as place
from deadhead.studies.store.folder import StudyError

HEAD = "steps: [prune, finetune, evaluate]\nfixed: {model: m, task: pos, source: en}\n"


@pytest.mark.parametrize(
    ("timeout", "executor"), [(0, "local"), (float("nan"), "local"), (5.0, "serial")]
)
def test_limits_that_make_no_sense_are_refused(search_file, tmp_path, timeout, executor):
    with pytest.raises(StudyError, match="trial"):
        run(load(search_file), tmp_path / "s", work=WORK, executor=executor, trial_timeout=timeout)
    assert not (tmp_path / "s").exists()


def command_of(pid):
    """How a process was started; other tests may have left processes of theirs, such as a
    browser."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_a_stopped_worker_is_replaced(search_file, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "BEAT", 0.1)
    monkeypatch.setattr(processes, "SILENT", 1.5)
    monkeypatch.setenv("TRIVIAL_SECONDS", "0.02")
    recipe = load(search_file)
    stopped: list[int] = []

    def watch(facts):
        if facts["done"] >= 3 and facts["running"] and not stopped:
            stopped.append(
                next(
                    child
                    for child in workers_of(os.getpid())
                    if "execution.worker" in command_of(child)
                )
            )
            os.kill(stopped[0], signal.SIGSTOP)

    monkeypatch.setattr("deadhead.studies.execution.jobs.EVERY", 0.0)
    result = run(recipe, tmp_path / "s", workers=1, work=WORK, watch=watch)
    assert stopped
    assert (result.done, result.failed) == (result.total, 0)
    (report,) = result.reports
    assert "its process gave no sign of life" in report
    assert "runs again" in report
    run_free(recipe, tmp_path / "whole")
    assert stable_records(tmp_path / "s") == stable_records(tmp_path / "whole")


def test_a_trial_that_hangs_once_runs_again_and_one_that_always_hangs_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIVIAL_MARKS", str(tmp_path))
    file = tmp_path / "r.yaml"
    file.write_text(f"{HEAD}axes: {{remove: {{random: [1, 54, 55, 2]}}}}\n")
    result = run(load(file), tmp_path / "s", workers=2, work=WORK, trial_timeout=1.5)
    assert (result.done, result.failed, result.left) == (3, 1, 0)
    (error,) = [
        record["error"]
        for record in stable_records(tmp_path / "s").values()
        if record["state"] == "failed"
    ]
    assert "longer than the 1.5 s of --trial-timeout" in error
    assert sum("runs again" in text for text in result.reports) == 2
    assert sum("recorded as failed" in text for text in result.reports) == 1
    assert status(tmp_path / "s").reports == result.reports


def test_processes_that_all_go_silent_stop_the_study(tmp_path, monkeypatch):
    """As on a disk that does not answer: not one trial after the other is written off."""
    monkeypatch.setenv("TRIVIAL_MARKS", str(tmp_path))
    monkeypatch.setattr(processes, "BEAT", 3600.0)
    monkeypatch.setattr(processes, "SILENT", 0.3)
    file = tmp_path / "r.yaml"
    file.write_text(f"{HEAD}axes: {{remove: {{random: [55]}}, seed: 0..9}}\n")
    with pytest.raises(StudyError, match="one process after the other gave no sign of life"):
        run(load(file), tmp_path / "s", workers=1, work=WORK)
    assert status(tmp_path / "s").left >= 9


def live(folder, **facts):
    usual = {"done": 9, "failed": 0, "workers": 1, "now": time.time(), "elapsed": 90.0}
    (folder / "live.json").write_text(json.dumps({**usual, **facts}))


@pytest.fixture
def nearly(search_file, tmp_path):
    """A study with one trial to go."""
    run_free(search_file, tmp_path / "s")
    next((tmp_path / "s" / "records").iterdir()).unlink()
    return tmp_path / "s"


def test_a_clock_set_back_shows_no_negative_times(nearly):
    later = time.time() + 10_000  # when the run wrote about itself the clock said so
    running = {"a": {"note": "", "seconds": 5.0}}
    with place.locked(nearly):
        live(nearly, now=later, running=running)
        results = status(nearly)
    assert [trial.seconds for trial in results.running] == [5.0]
    assert results.eta == pytest.approx(10.0)
