"""Files are whole or absent, after a kill and after a power cut, whoever else writes."""

import errno
import os
import threading
from pathlib import Path

import pytest
from safetensors import SafetensorError

from deadhead import files
from deadhead.errors import FolderError
from deadhead.files.writing import writing


@pytest.fixture
def calls(monkeypatch):
    """The order in which files are synced and renamed."""
    log: list[str] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def logged_fsync(handle):
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        log.append("sync draft" if files.is_draft(name) else f"sync {name}")
        fsync(handle)

    def logged(move):
        def call(old, new):
            log.append(f"rename {Path(new).name}")
            move(old, new)

        return call

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged(replace))
    monkeypatch.setattr(os, "rename", logged(rename))
    return log


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="reads the names of open files in /proc"
)


@needs_proc
def test_a_file_is_synced_before_it_gets_its_name_and_the_name_after(tmp_path, calls):
    home = tmp_path / "home"
    home.mkdir()
    files.write(home / "a.txt", "häuser")
    assert calls == ["sync draft", "rename a.txt", "sync home"]
    calls.clear()
    files.put(home / "b.bin", lambda draft: draft.write_bytes(b"\x00"))
    assert calls == ["sync draft", "rename b.bin", "sync home"]
    calls.clear()
    files.write(home / "c.txt", "quick", durable=False)
    assert calls == ["rename c.txt"]
    assert (home / "a.txt").read_text(encoding="utf-8") == "häuser"
    assert sorted(os.listdir(home)) == ["a.txt", "b.bin", "c.txt"]


@needs_proc
def test_all_of_a_folder_is_synced_before_it_gets_its_name(tmp_path, calls):
    def fill(draft):
        (draft / "inner").mkdir()
        (draft / "inner" / "weights").write_bytes(b"1")

    files.put_folder(tmp_path / "home", fill)
    assert calls == [
        "sync draft",
        "sync weights",
        "sync inner",
        "rename home",
        f"sync {tmp_path.name}",
    ]


def test_a_folder_is_replaced_and_a_failure_leaves_the_old_one(tmp_path):
    home = tmp_path / "home"
    files.put_folder(home, lambda draft: (draft / "old").write_text("1"))
    with pytest.raises(OSError, match="no room"):
        files.put_folder(home, fails)
    assert os.listdir(home) == ["old"]
    files.put_folder(home, lambda draft: (draft / "new").write_text("2"))
    assert os.listdir(home) == ["new"]
    assert os.listdir(tmp_path) == ["home"]


def fails(draft):
    raise OSError("no room")


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    files.write(tmp_path / "a", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda old, new: fails(old))
        with pytest.raises(OSError, match="no room"):
            files.write(tmp_path / "a", "new")
    with pytest.raises(OSError, match="no room"):
        files.put(tmp_path / "a", fails)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_many_writers_of_one_folder(tmp_path):
    """Whoever is last wins; none fails, and nothing half is ever in place."""
    problems: list[BaseException] = []

    def work(number):
        try:
            for _ in range(30):
                files.put_folder(
                    tmp_path / "home",
                    lambda draft: [(draft / n).write_text(str(number)) for n in "ab"],
                )
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert (tmp_path / "home" / "a").read_text() == (tmp_path / "home" / "b").read_text()
    assert os.listdir(tmp_path) == ["home"]


def test_links_are_replaced_and_devices_written_to(tmp_path):
    (tmp_path / "outside").write_text("secret")
    for name, place in (
        ("one", lambda path: files.write(path, "x")),
        ("two", lambda path: files.put(path, lambda d: d.write_text("x"))),
    ):
        (tmp_path / name).symlink_to(tmp_path / "outside")
        place(tmp_path / name)
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "outside").read_text() == "secret"
    files.put(Path("/dev/null"), lambda path: path.write_text("gone"))
    assert not Path("/dev/null").is_file()


def test_drafts_of_killed_writers_are_removed(tmp_path):
    files.draft_of(tmp_path / "a.json").write_text("half")
    files.draft_of(tmp_path / "folder").mkdir()
    (tmp_path / ".draft-123-model").mkdir()  # as earlier versions named it
    (tmp_path / "draft.md").write_text("mine")
    files.remove_drafts(tmp_path)
    assert os.listdir(tmp_path) == ["draft.md"]


def test_the_next_writer_removes_the_drafts_of_a_killed_one(tmp_path):
    half, other = files.draft_of(tmp_path / "m.gguf"), files.draft_of(tmp_path / "n.gguf")
    half.write_text("half")
    other.write_text("of another file")
    (tmp_path / ".m.gguf.mine.draft").write_text("mine")
    inner: list[str] = []

    def fill(draft):
        draft.write_text("outer")
        # another writer of the same file, while this one writes
        files.put(tmp_path / "m.gguf", lambda own: own.write_text("inner"))
        inner.extend(os.listdir(tmp_path))
        assert draft.read_text() == "outer"

    files.put(tmp_path / "m.gguf", fill)
    assert half.name not in inner
    assert (tmp_path / "m.gguf").read_text() == "outer"
    assert sorted(os.listdir(tmp_path)) == sorted([".m.gguf.mine.draft", other.name, "m.gguf"])
    files.draft_of(tmp_path / "folder").mkdir()
    files.put_folder(tmp_path / "folder", lambda draft: (draft / "a").write_text("a"))
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".folder")]


def test_a_long_name_has_a_draft_too(tmp_path):
    files.write(tmp_path / ("x" * 255), "1")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_a_folder_goes_whole_or_not_at_all(tmp_path, monkeypatch):
    """A process that is killed while it deletes leaves no half of a folder under its name."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a").write_text("a")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            files.remove_folder(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    files.remove_drafts(tmp_path)
    assert not list(tmp_path.iterdir())
    files.remove_folder(tmp_path / "state")  # which is gone


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        # safetensors raises an error of its own where a disk is full
        (SafetensorError("I/O error: No space left on device"), "I/O error: No space left"),
    ],
)
def test_a_disk_that_refuses_is_one_error(problem, reason):
    with pytest.raises(FolderError, match=f"^out cannot be written: {reason}"), writing("out"):
        raise problem
    with pytest.raises(ValueError, match="other"), writing("out"):
        raise ValueError("other")  # the twin: nobody else's error is taken for it
