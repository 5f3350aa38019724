"""An export replaces only its own files; killed at any step, the next call finds one export
whole."""

import json
import os

import pytest

from deadhead.errors import FolderError
from deadhead.files.export_folder import LIST, check_export, put_export

OLD = {"model.onnx": "old", "model.onnx.data": "old", "1_Pooling/config.json": "old"}
NEW = {"model.onnx": "new", "vocab.json": "new", "2_Dense/config.json": "new"}


class Killed(BaseException):
    """What no handler of the code under test catches."""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def write(folder, content):
    def fill(draft):
        for name, text in content.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_text(text)

    put_export(folder, fill)


def visible(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path.read_text() for name, path in names.items() if name[0] != "."}


def test_an_export_replaces_its_own_files_and_no_others(tmp_path):
    folder = tmp_path / "export"
    write(folder, OLD)
    assert visible(folder) == OLD
    (folder / ".gitattributes").write_text("mine")
    write(folder, NEW)
    assert visible(folder) == NEW
    assert sorted(os.listdir(folder)) == sorted(
        [".gitattributes", LIST, "2_Dense", "model.onnx", "vocab.json"]
    )
    (folder / "thesis.docx").write_text("mine")
    (folder / "results" / "deep").mkdir(parents=True)
    (folder / "results" / "deep" / "a").write_text("mine")
    (folder / "2_Dense" / "config.json").unlink()  # one of ours may be gone
    for call in (lambda: check_export(folder), lambda: write(folder, OLD)):
        with pytest.raises(FolderError, match=r"no export wrote: results, thesis\.docx\."):
            call()
    assert (folder / "results" / "deep" / "a").read_text() == "mine"
    assert (folder / "model.onnx").read_text() == "new"


def test_a_file_that_appears_during_the_export_stays(tmp_path):
    folder = tmp_path / "export"

    def fill(draft):
        (draft / "config.json").write_text("new")
        (folder / "config.json").write_text("mine")

    with pytest.raises(FolderError, match=r"no export wrote: config\.json"):
        put_export(folder, fill)
    assert visible(folder) == {"config.json": "mine"}


def test_a_folder_without_a_list_is_of_the_user(tmp_path):
    (tmp_path / "model.onnx").write_text("mine")
    for text in (None, "[]", "{", '{"files": 3}', "[" * 5000):
        if text is not None:
            (tmp_path / LIST).write_text(text)
        with pytest.raises(FolderError, match=r"no export wrote: model\.onnx"):
            write(tmp_path, NEW)
    assert visible(tmp_path) == {"model.onnx": "mine"}


def test_a_forged_list_deletes_nothing_outside(tmp_path):
    folder, outside = tmp_path / "export", tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("mine")
    write(folder, {"model.onnx": "old"})
    (folder / "link").symlink_to(outside, target_is_directory=True)
    names = ["model.onnx", "link", "link/a", "../outside/a", str(outside / "a")]
    (folder / LIST).write_text(json.dumps({"files": names}))
    write(folder, NEW)
    assert (outside / "a").read_text() == "mine"
    assert visible(folder) == NEW


@pytest.mark.parametrize("call", ["replace", "rename", "unlink", "mkdir", "rmdir"])
def test_a_kill_at_any_step(call, tmp_path, monkeypatch):
    real, steps, kill_at = getattr(os, call), [0], [0]

    def counted(*args, **kwargs):
        steps[0] += 1
        if steps[0] == kill_at[0]:
            raise Killed
        return real(*args, **kwargs)

    for step in range(1, 100):
        folder = tmp_path / str(step)
        write(folder, OLD)
        with monkeypatch.context() as patch:
            steps[0], kill_at[0] = 0, step
            patch.setattr(os, call, counted)
            try:
                write(folder, NEW)
            except Killed:
                pass
            else:
                break
        check_export(folder)  # what the next export does first
        now = visible(folder)
        assert now == OLD or NEW.items() <= now.items() <= {**OLD, **NEW}.items()
        write(folder, NEW)
        assert visible(folder) == NEW
    assert step < 99
