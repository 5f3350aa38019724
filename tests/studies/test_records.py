"""The folder and the records of a study: no link is followed, and strange files are refused."""

import json

import numpy
import pytest
from small_study import run_free

from deadhead.studies import clean, load, read, status, summaries
from deadhead.studies.store import folder as place
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial


@pytest.mark.parametrize("part", ["records", "shared", "study.json", "lock"])
def test_no_link_is_followed(search_file, tmp_path, part):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / part).symlink_to(outside if part in ("records", "shared") else outside / "file")
    with pytest.raises(StudyError, match="is a link"):
        run_free(search_file, folder)
    assert not list(outside.iterdir())


def test_foreign_files_are_no_records(search_file, tmp_path):
    run_free(search_file, tmp_path / "s")
    folder = tmp_path / "s" / "records"
    good = sorted(folder.iterdir())
    secret = tmp_path / "secret.json"
    secret.write_text(good[0].read_text().replace(good[0].stem, "secret"))
    (folder / "secret.json").symlink_to(secret)
    (folder / "list.json").write_text("[]")
    good[0].write_text(good[0].read_text()[:40])  # cut short, as by a power failure
    good[1].write_text("")
    assert set(summaries(tmp_path / "s")) == {file.stem for file in good[2:]}
    assert run_free(search_file, tmp_path / "s").ran == 2
    with pytest.raises(StudyError, match="there is no record nothing"):
        read(tmp_path / "s", "nothing")


def test_shared_work_of_others_is_only_data(search_file, tmp_path):
    recipe = load(search_file)
    key = next(iter(recipe.trials[1].keys.values()))
    home = place.prepare(tmp_path / "s") / "shared" / key
    home.mkdir()
    (home / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(StudyError, match="does not belong in a study"):
        run_free(recipe, tmp_path / "s")


def test_records_are_plain_json():
    odd = {
        "a": float("nan"),
        "b": numpy.float32(0.5),
        "c": numpy.int64(3),
        "d": "\ud800",
        "e": object,
        "f": [float("inf")],
    }
    stored = json.loads(
        Record(trial=Trial({"steps": []}), state="done", details=odd).to_json(),
        parse_constant=lambda text: pytest.fail(text),
    )
    assert stored["details"]["a"] is None
    assert (stored["details"]["b"], stored["details"]["c"], stored["details"]["f"]) == (
        0.5,
        3,
        [None],
    )


@pytest.mark.parametrize("name", ["../study", "/etc/passwd", ".", "a/b"])
def test_an_id_is_no_path(search_file, tmp_path, name):
    place.prepare(tmp_path / "s")
    with pytest.raises(StudyError, match="expected the id of a trial, got "):
        read(tmp_path / "s", name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "cells": []}',
        '{"format": 1, "cells": [[1, 2]]}',
        '{"format": 1, "cells": {}}',
        "[" * 100_000,
    ],
)
def test_a_strange_study_is_refused(tmp_path, text):
    (place.prepare(tmp_path / "s") / "study.json").write_text(text)
    with pytest.raises(StudyError, match="is not a study"):
        status(tmp_path / "s")


def test_a_damaged_recipe_is_not_cleaned(search_file, tmp_path):
    run_free(search_file, tmp_path / "s")
    file = tmp_path / "s" / "study.json"
    stored = json.loads(file.read_text())
    old = {name: value for name, value in stored.items() if name != "digest"} | {"format": 1}
    file.write_text(json.dumps({**old, "recipe": {"steps": ["x"], "axes": 3}}))
    with pytest.raises(StudyError, match=r"cannot be read from its study\.json"):
        clean(tmp_path / "s")
