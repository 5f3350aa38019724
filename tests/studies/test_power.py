"""Files of a study cut short, as a power cut or a disk leaves them, and resumed: the records are
those of an undisturbed run."""

import os
import shutil

import pytest
from small_study import WORK, run_free, stable_records

from deadhead.studies import load, run, status, stop
from deadhead.studies.store import folder as place
from deadhead.studies.store import shared_work as shared

SMALL = ["seed=0", "search.lowest=1..2"]
WORLD = [
    "data.examples=32",
    "targets=[de]",
    "finetune.scored=none",
    "rank={examples: 16}",
    "remove=[none, {lowest: 2}]",
    "seed=0",
]
LENGTHS = ("0", "half", "one byte short")


def cut(file, length):
    size = file.stat().st_size
    os.truncate(file, {"0": 0, "half": size // 2, "one byte short": max(0, size - 1)}[length])


def interrupted(recipe, folder, after, **options):
    """Run a study until some trials are done."""

    def watch(facts):
        if facts["done"] >= after:
            stop(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deadhead.studies.execution.jobs.EVERY", 0.0)
        assert run(recipe, folder, executor="serial", watch=watch, **options).left


@pytest.fixture
def begun(search_file, tmp_path):
    """A study in its midst, and the records of the same study undisturbed."""
    recipe = load(search_file, SMALL)
    run_free(recipe, tmp_path / "whole")
    interrupted(recipe, tmp_path / "s", 4, work=WORK)
    return recipe, tmp_path / "s", stable_records(tmp_path / "whole")


@pytest.mark.parametrize("length", LENGTHS)
def test_any_file_of_a_study_may_be_cut_short(begun, tmp_path, length):
    recipe, folder, expected = begun
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kinds = {"study.json", "live.json", "lock", "records", "shared"}
    assert {path.parts[0] for path in files} == kinds
    for number, name in enumerate([*files, None]):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy)
        for file in files if name is None else [name]:  # in the end all of them
            cut(copy / file, length)
        result = run_free(recipe, copy)
        assert (result.left, result.failed) == (0, 0)
        assert stable_records(copy) == expected
        record = (
            name is not None and name.parts[0] == "records" and length != "one byte short"
        )  # without its newline it is whole
        damaged = record or (name is not None and name.parts[0] == "shared")
        assert (copy / "damaged").exists() == (damaged or name is None)
        if damaged:
            assert status(copy).reports == result.reports
            (report,) = result.reports
            assert report.startswith(
                f"{name.parts[0]}/{name.parts[1]} was damaged ({'it' if record else name.name} "
            )


def test_nothing_that_was_synced_is_lost(search_file, tmp_path, monkeypatch):
    """A power cut empties all files that were not synced: every record and all shared work was."""
    recipe, folder = load(search_file, SMALL), tmp_path / "s"
    synced: set[int] = set()
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.add(os.fstat(handle).st_ino), real(handle))
    )
    interrupted(recipe, folder, 4, work=WORK)
    before = stable_records(folder)
    lost_records = [
        path for path in folder.rglob("*") if path.is_file() and path.stat().st_ino not in synced
    ]
    assert {path.name for path in lost_records} <= {"live.json", "lock"}
    assert {
        folder.stat().st_ino,
        (folder / "records").stat().st_ino,
        (folder / "shared").stat().st_ino,
    } <= synced
    for path in lost_records:
        cut(path, "0")
    assert run_free(recipe, folder).ran == len(recipe.trials) - len(before)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "s"
    assert run(load("smoke", WORLD), folder, executor="serial").done == 2
    return folder


def weights_of(folder):
    (results,) = (folder / "shared").glob("*/model/model.safetensors")
    return results


def metrics(folder):
    return {
        name: (record["state"], record["metrics"], record["removed"])
        for name, record in stable_records(folder).items()
    }


def test_a_damaged_model_is_trained_again(trained, tmp_path):
    """The trials that start from it do not fail; nobody has to delete anything."""
    folder = tmp_path / "s"
    shutil.copytree(trained, folder)
    for path in (folder / "records").iterdir():
        path.unlink()
    for path in (folder / "shared").glob("*/ranking.json"):  # else nobody needs the model
        cut(path, "half")
    cut(weights_of(folder), "half")
    result = run(load("smoke", WORLD), folder, executor="serial")
    assert (result.done, result.failed) == (2, 0)
    assert metrics(folder) == metrics(trained)
    assert any("model.safetensors" in text for text in result.reports)
    assert weights_of(folder).read_bytes() == weights_of(trained).read_bytes()


def test_shared_work_keeps_only_what_is_read_back(tmp_path):
    """A saved model takes along the files it came with, whatever they are."""

    def write(home):
        (home / "model").mkdir()
        for name in ("state.json", "model/config.json", "model/vocab.txt", "model/modeling.py"):
            (home / name).write_text("{}")

    folder = place.prepare(tmp_path / "s")
    shared.keep(folder, "key", write)
    home = shared.find(folder, "key")
    assert home is not None
    assert sorted(file.name for file in home.rglob("*") if file.is_file()) == [
        "config.json",
        "state.json",
        "whole.json",
    ]
