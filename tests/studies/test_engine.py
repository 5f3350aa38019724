"""Records, executors and the folder: complete, equal, whole or absent, and nothing done twice."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from small_study import WORK, run_free, stable_records

from deadhead.studies import load, run, stop
from deadhead.studies.execution import jobs
from deadhead.studies.store import folder as place
from deadhead.studies.store.folder import DiskFull, GpuLost, StudyError, StudyTaken

TOTAL = 2 * (1 + 4 * 4)


def marks(folder):
    return {file.name: len(file.read_text()) for file in folder.iterdir()}


@pytest.fixture
def marks_folder(tmp_path, monkeypatch):
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("TRIVIAL_MARKS", str(folder))
    return folder


def test_serial_and_processes_write_equal_records(search_file, tmp_path, marks_folder):
    recipe = load(search_file)
    result = run_free(recipe, tmp_path / "one")
    assert (result.done, result.ran, result.left) == (TOTAL, TOTAL, 0)
    counted = marks(marks_folder)
    assert set(counted.values()) == {1}  # every training and ranking once, shared ones too
    assert sum(name.startswith("rank") for name in counted) == 2
    assert run(recipe, tmp_path / "two", workers=2, work=WORK).done == TOTAL
    assert set(marks(marks_folder).values()) == {2}
    assert stable_records(tmp_path / "one") == stable_records(tmp_path / "two")
    assert set(stable_records(tmp_path / "one")) == {trial.id for trial in recipe.trials}


def test_run_again_runs_nothing_and_a_longer_axis_only_adds(search_file, tmp_path):
    run_free(search_file, tmp_path / "s")
    before = stable_records(tmp_path / "s")
    assert run_free(search_file, tmp_path / "s").ran == 0
    longer = run_free(load(search_file, ["seed=[0, 1, 2]"]), tmp_path / "s")
    assert longer.ran == TOTAL // 2
    assert {name: stable_records(tmp_path / "s")[name] for name in before} == before


def test_failures_are_recorded_and_retried(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text(
        "steps: [prune, finetune, evaluate]\nfixed: {model: m, task: pos, source: en}\n"
        "axes: {remove: {random: [1, 66, 77, 2]}}\n"
    )
    result = run(load(file), tmp_path / "s", workers=2, work=WORK)
    assert (result.done, result.failed, result.left) == (2, 2, 0)
    errors = sorted(
        r["error"] for r in stable_records(tmp_path / "s").values() if r["state"] == "failed"
    )
    assert "SIGKILL" in errors[0]
    assert 'ValueError("no heads today")' in errors[1]
    assert errors[1].startswith("Traceback")
    assert run(load(file), tmp_path / "s", workers=2, work=WORK).ran == 0
    assert run(load(file), tmp_path / "s", workers=2, work=WORK, retry_failed=True).ran == 2
    assert len(list((tmp_path / "s" / "records").iterdir())) == 4


def loses(tmp_path, *draws):
    file = tmp_path / "r.yaml"
    head = "steps: [prune, finetune, evaluate]\nfixed: {model: m, task: pos, source: en}\n"
    file.write_text(f"{head}axes: {{remove: {{random: {list(draws)}}}, seed: [0, 1, 2]}}\n")
    return file


def test_a_trial_that_loses_the_gpu_twice_has_failed_and_spoils_no_other(tmp_path):
    result = run(load(loses(tmp_path, 1, 99, 2), ["seed=0"]), tmp_path / "s", workers=1, work=WORK)
    assert (result.done, result.failed, result.left) == (2, 1, 0)
    (error,) = [
        r["error"] for r in stable_records(tmp_path / "s").values() if r["state"] == "failed"
    ]
    assert "ended with exit code 1, 2 times" in error


def test_a_missing_gpu_stops_a_study_in_one_process(tmp_path):
    """Not one trial after the other is written off: what is left can run when the GPU is back."""
    recipe = load(loses(tmp_path, 99), ["seed=[0, 1, 2, 3]"])
    with pytest.raises(GpuLost, match="busy or unavailable") as problem:
        run(recipe, tmp_path / "s", executor="serial", work=WORK)
    assert "nvidia-smi" in problem.value.hint
    assert not stable_records(tmp_path / "s")


def test_a_second_run_is_refused(search_file, tmp_path):
    folder = place.prepare(tmp_path / "s")
    with place.locked(folder):
        assert place.is_running(folder)
        with pytest.raises(StudyTaken, match=rf"process {os.getpid()} on"):
            run_free(search_file, folder)
    assert not place.is_running(folder)
    assert run_free(search_file, folder).done == TOTAL


def test_another_recipe_is_refused(search_file, tmp_path):
    run_free(search_file, tmp_path / "s")
    other = search_file.with_name("other.yaml")
    other.write_text(search_file.read_text())
    with pytest.raises(StudyError, match="is a study of search, not of other"):
        run_free(other, tmp_path / "s")


def test_stop_and_resume(search_file, tmp_path, monkeypatch):
    """A stop that is asked for while trials run lets those finish, and the rest is left for the
    next run."""
    monkeypatch.setenv("TRIVIAL_SECONDS", "0.1")
    monkeypatch.setattr(
        jobs, "EVERY", 0.02
    )  # seldom, it might only look when both workers have just ended a trial
    calls: list[bool] = []

    def watch(facts):
        if facts["running"] and not calls:
            calls.append(stop(tmp_path / "s"))

    first = run(load(search_file), tmp_path / "s", workers=2, work=WORK, watch=watch)
    assert calls == [True]
    assert 0 < first.left < TOTAL
    assert first.failed == 0
    monkeypatch.setenv("TRIVIAL_SECONDS", "0")
    assert run_free(search_file, tmp_path / "s").ran == first.left
    run_free(search_file, tmp_path / "whole")
    assert stable_records(tmp_path / "s") == stable_records(tmp_path / "whole")
    assert not stop(tmp_path / "s")
    with pytest.raises(StudyError, match="is not a study"):
        stop(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StudyError, match="has a saved model"):
        run_free(search_file, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["s", "whole"]


@pytest.mark.parametrize(("times", "raised"), [(1, False), (2, True)])
def test_ctrl_c(search_file, tmp_path, monkeypatch, times, raised):
    """Once finishes the running trials, twice stops at once; either way what is there is whole."""
    monkeypatch.setenv("TRIVIAL_SECONDS", "0.1")
    sent: list[int] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background

    def watch(facts):
        while facts["running"] and len(sent) < times:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    if raised:
        with pytest.raises(KeyboardInterrupt):
            run(load(search_file), tmp_path / "s", workers=2, work=WORK, watch=watch)
    else:
        assert (
            0
            < run(load(search_file), tmp_path / "s", workers=2, work=WORK, watch=watch).left
            < TOTAL
        )
    monkeypatch.setenv("TRIVIAL_SECONDS", "0")
    assert run_free(search_file, tmp_path / "s").left == 0
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_a_study_in_the_background_ignores_ctrl_c(search_file, tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts it

    def watch(facts):
        os.kill(os.getpid(), signal.SIGINT)

    try:
        result = run_free(search_file, tmp_path / "s", watch=watch)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.done == TOTAL


def full_disk(monkeypatch, after, number):
    """After some records no more can be written."""
    real, count = os.replace, [0]

    def replace(old, new):
        if "records" in str(new):
            count[0] += 1
            if count[0] > after:
                raise OSError(number, os.strerror(number), str(new))
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize("executor", ["serial", "local"])
def test_a_full_disk_is_reported_and_no_finished_record_is_lost(
    search_file, tmp_path, monkeypatch, executor
):
    with monkeypatch.context() as patch:
        full_disk(patch, 5, errno.ENOSPC)
        with pytest.raises(DiskFull, match="the disk is full"):
            run(load(search_file), tmp_path / "s", executor=executor, work=WORK)
    assert len(stable_records(tmp_path / "s")) == 5
    assert run_free(search_file, tmp_path / "s").left == 0


def test_a_read_only_folder_is_reported(search_file, tmp_path, monkeypatch):
    def barred(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", barred)
    with pytest.raises(
        StudyError, match=r"cannot be written .Read-only file system.. Nothing was changed"
    ):
        run_free(search_file, tmp_path / "s")
