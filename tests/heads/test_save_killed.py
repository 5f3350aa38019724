"""A save that is cut short at any step leaves the old model or the new one, whole; a forged marker
reaches nothing outside its folder.
"""

import json
import os
import shutil
from contextlib import contextmanager, suppress

import pytest

from deadhead.errors import FolderError
from deadhead.files.model_folder import MARKER
from deadhead.heads import load, prune, save
from deadhead.studies.fields import MODEL
from deadhead.studies.inputs import fingerprints
from deadhead.studies.trial import Trial
from tiny_models import answers, apart, build

OLD, NEW = (
    prune(build("bert"), ["encoder.0.1"]),
    prune(build("bert", seed=3), ["encoder.1.0", "encoder.1.2"]),
)
SMALL = "60KB"  # several shards
MINE = {
    "notes.txt": b"mine",
    "model-backup.safetensors": b"mine",
    "modelling.txt": b"mine",
    "templates/mine.txt": b"mine",
}


class Killed(BaseException):
    """What no handler of the code under test catches."""


class Tokenizer:
    """Writes a file and a folder, as tokenizers with several chat templates do."""

    def __init__(self, text):
        self.text = text

    def save_pretrained(self, folder):
        (folder / "templates").mkdir()
        (folder / "templates" / "chat.jinja").write_text(self.text)
        (folder / "vocab.txt").write_text(self.text)


def content(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def write_old(folder, shards="50GB"):
    save(OLD, folder, Tokenizer("old"), max_shard_size=shards)
    for name, text in MINE.items():
        (folder / name).write_bytes(text)
    return folder


@contextmanager
def cut_at(step, call, problem):
    """Raise the error in place of the n-th call of this function of `os`."""
    calls, real = [0], getattr(os, call)

    def counted(*args, **kwargs):
        calls[0] += 1
        if calls[0] == step:
            raise problem
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, counted)
        yield


def check_whole(folder, old, new):
    """Which of the two models is there."""
    loaded = load(folder).eval()
    now = content(folder)
    assert now in (old, new)
    which = "old" if now == old else "new"
    assert apart(answers(OLD if which == "old" else NEW), answers(loaded)) == 0
    return which


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        ("replace", "50GB", SMALL),
        pytest.param("replace", "50GB", "50GB", marks=pytest.mark.slow),
        pytest.param("replace", SMALL, "50GB", marks=pytest.mark.slow),
        ("unlink", SMALL, "50GB"),
        pytest.param("mkdir", "50GB", "50GB", marks=pytest.mark.slow),
    ],
)
def test_a_kill_at_any_step_leaves_one_model_whole(call, before, after, tmp_path):
    start = write_old(tmp_path / "start", before)
    old = content(start)
    new = content(
        save(
            NEW,
            shutil.copytree(start, tmp_path / "finished"),
            Tokenizer("new"),
            max_shard_size=after,
        )
    )
    assert set(MINE) < set(new)
    assert new != old
    outcomes, step = [], 0
    while True:
        step += 1
        folder = shutil.copytree(start, tmp_path / f"{call}-{step}")
        with suppress(Killed), cut_at(step, call, Killed()):
            save(NEW, folder, Tokenizer("new"), max_shard_size=after)
            break
        outcomes.append(check_whole(folder, old, new))
        shutil.rmtree(folder)
    assert outcomes == sorted(
        outcomes, reverse=True
    )  # the old one up to some step, then the new one
    if call == "replace":
        assert len(outcomes) > 8
        assert set(outcomes) == {"old", "new"}


@pytest.mark.parametrize("second", range(1, 5))
def test_finishing_may_be_killed_too(second, tmp_path):
    folder = write_old(tmp_path / "model")
    interrupt(folder)
    with pytest.raises(Killed), cut_at(second, "replace", Killed()):
        load(folder)
    assert apart(answers(NEW), answers(load(folder).eval())) == 0
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def interrupt(folder):
    """Kill a save over a folder when its old files are out of the way and no new one is there."""
    with pytest.raises(Killed), cut_at(2 + len(content(folder)) - len(MINE), "replace", Killed()):
        save(NEW, folder, Tokenizer("new"))
    assert not (folder / "config.json").exists()


def test_the_next_save_and_a_study_finish_it(tmp_path):
    saved = write_old(tmp_path / "saved")
    interrupt(saved)
    save(OLD, saved, Tokenizer("old"))
    assert apart(answers(OLD), answers(load(saved).eval())) == 0
    assert (saved / "vocab.txt").read_text() == "old"
    read = write_old(tmp_path / "read")
    interrupt(read)
    assert not list(MODEL.check(str(read)))
    trial = Trial({"model": str(read), "task": "pos", "data": {"root": "world"}, "steps": []})
    now = fingerprints([trial])
    assert (read / "config.json").exists()
    load(read)
    assert fingerprints([trial]) == now


def test_a_draft_of_a_killed_save_is_removed_by_the_next(tmp_path):
    folder = write_old(tmp_path / "model")
    (folder / ".draft-abandon1").mkdir()
    (folder / ".draft-abandon1" / "model.safetensors").write_bytes(b"half")
    (folder / ".draft-mine.txt").write_bytes(b"mine")
    with suppress(Killed), cut_at(1, "replace", Killed()), pytest.MonkeyPatch.context() as patch:
        patch.setattr("deadhead.files._discard", lambda path: None)  # as a real kill
        save(NEW, folder)
    assert len([name for name in os.listdir(folder) if name.startswith(f".{MARKER}")]) == 1
    save(NEW, folder)
    assert [name for name in os.listdir(folder) if name.startswith(".")] == [".draft-mine.txt"]


def test_where_the_folder_may_not_be_written_the_error_says_what_to_do(tmp_path):
    folder = write_old(tmp_path / "model")
    interrupt(folder)
    message = r"an interrupted save.*Permission denied(.|\n)*copy it with its hidden files"
    with (
        pytest.raises(FolderError, match=message),
        cut_at(1, "replace", PermissionError(13, "Permission denied")),
    ):
        load(folder)
    assert apart(answers(NEW), answers(load(folder).eval())) == 0


@pytest.mark.parametrize(
    "marker",
    [
        {"draft": "../outside", "remove": []},
        {"draft": ".", "remove": []},
        {"draft": ".draft-x", "remove": ["../outside/model.safetensors"]},
        {"draft": ".draft-x", "remove": ["model/../../outside/model.safetensors"]},
        {"draft": ".draft-x", "remove": ["notes.txt"]},
        {"draft": ".draft-x", "remove": [3]},
        {"draft": None, "remove": None},
        "x",
    ],
)
def test_a_forged_marker_is_refused(marker, tmp_path):
    folder, outside = write_old(tmp_path / "model"), tmp_path / "outside"
    outside.mkdir()
    (outside / "model.safetensors").write_bytes(b"not theirs")
    (folder / ".draft-x").mkdir()
    (folder / MARKER).write_text(json.dumps(marker))
    before = content(tmp_path)
    with pytest.raises(FolderError, match="was not written by deadhead"):
        load(folder)
    assert content(tmp_path) == before


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_bytes(b"not theirs")
    marker = json.dumps({"draft": ".draft-x", "remove": ["model-1.safetensors"]})
    before = content(outside)

    into = write_old(tmp_path / "place is a link")
    (into / "sub").symlink_to(outside, target_is_directory=True)
    (into / ".draft-x" / "sub").mkdir(parents=True)
    (into / ".draft-x" / "sub" / "notes.txt").write_bytes(b"forged")
    (into / MARKER).write_text(marker)
    with pytest.raises(FolderError, match="expected a folder, got a link"):
        load(into)

    named = write_old(tmp_path / "marker is a link")
    (tmp_path / "marker").write_text(marker)
    (named / MARKER).symlink_to(tmp_path / "marker")
    with pytest.raises(FolderError, match="was not written by deadhead"):
        load(named)
    assert content(outside) == before


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_moves(tmp_path):
    folder = write_old(tmp_path / "model")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    before = content(folder)
    with pytest.raises(FolderError, match=r"config\.json: expected a file, got a folder"):
        save(NEW, folder)
    assert content(folder) == before
