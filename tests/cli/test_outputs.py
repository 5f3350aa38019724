"""Where commands write: checked before any work, and nothing is overwritten without --force."""

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from architectures.tiny import tiny
from deadhead import cli
from deadhead.cli._outputs import check_file
from deadhead.exports.onnx.export import Exported, Graph
from deadhead.heads import save

RunCommand = Callable[..., tuple[int, str]]


@pytest.fixture
def run_command(monkeypatch, capsys):
    """What a command answers: its exit code, and what it says on standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["deadhead", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        return int(left.value.code or 0), capsys.readouterr().err

    return run


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to stand in, with a model, a folder that holds a file, an empty one, and a file."""
    monkeypatch.chdir(tmp_path)
    save(tiny("bert"), "model")
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    (tmp_path / "old.json").write_text("mine")
    return tmp_path


def everything(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b""
        for p in sorted(folder.rglob("*"))
    }


RANK = ("rank", "model", "--task", "pos", "--lang", "en", "--data", "world")
PRUNE = ("prune", "model", "--remove-heads", "encoder.0.1")
WRONG = [
    (
        (*RANK, "--out", "full"),
        "--out expects a file, got the folder full.\n"
        "  Hint: name a file, for instance full/ranking.json",
    ),
    (
        (*RANK, "--out", "nodir/r.json"),
        "--out nodir/r.json: there is no folder nodir.\n  Hint: create it first: mkdir -p nodir",
    ),
    (
        (*RANK, "--out", "old.json"),
        "--out old.json: the file already exists.\n"
        "  Hint: name another file, or add --force to overwrite it",
    ),
    (
        (*RANK, "--out", "r.json", "--plot", "nodir/r.html"),
        "--plot nodir/r.html: there is no folder nodir.",
    ),
    (
        (*PRUNE, "--out", "model"),
        "--out model is MODEL itself, which would be overwritten.\n  Hint: name another folder",
    ),
    ((*PRUNE, "--out", "link"), "is MODEL itself, which would be overwritten."),
    (
        (*PRUNE, "--out", "full"),
        "--out full: the folder is not empty.\n"
        "  Hint: name another folder, or add --force to overwrite its files",
    ),
    ((*PRUNE, "--out", "nodir/small"), "--out nodir/small: there is no folder nodir."),
    (
        (*PRUNE, "--out", "old.json"),
        "--out expects a folder, got the file old.json.\n  Hint: name a folder",
    ),
    (
        ("export", "model", "--onnx", "nodir/m.onnx"),
        "--onnx nodir/m.onnx: there is no folder nodir.",
    ),
    (
        ("export", "model", "--onnx", "old.json/m.onnx"),
        "--onnx old.json/m.onnx: old.json is not a folder.\n  Hint: name another folder",
    ),
    (
        ("export", "model", "--onnx", "full"),
        "--onnx full: the folder is not empty.\n"
        "  Hint: name another folder, or add --force to overwrite its files",
    ),
    (("export", "model", "--onnx", "model", "--force"), "--onnx model is MODEL itself"),
    (("export", "model", "--onnx", "old.json"), "--onnx old.json: the file already exists."),
    (("export-study", "study", "--csv", "old.json"), "--csv old.json: the file already exists."),
    (("export-study", "study", "--csv", "nodir/s"), "--csv nodir/s: there is no folder nodir."),
    (
        ("report", "study", "--out", "nodir/page.html"),
        "--out nodir/page.html: there is no folder nodir.\n  Hint: create it first: mkdir -p nodir",
    ),
    ((*PRUNE, "--out", "n" * 300), "nnn...: this name is longer than a file can have."),
]


LATER = (  # what must not be called before the output is checked
    "deadhead.saved.prune.load",
    "deadhead.exports.onnx.export.exported",
    "deadhead.training.models.load_with_tokenizer",
    "deadhead.tasks.load_data",
)


@pytest.mark.parametrize(
    ("words", "message"), WRONG, ids=[" ".join(words[-4:]) for words, _ in WRONG]
)
def test_a_wrong_output_is_refused_before_any_work(words, message, run_command, here, monkeypatch):
    def too_late(*_, **__):
        raise AssertionError("loaded before the place to write to was checked")

    (here / "link").symlink_to("model")
    before = everything(here)
    for name in LATER:
        monkeypatch.setattr(name, too_late)
    code, err = run_command(*words)
    assert code == 1
    assert message in err
    assert everything(here) == before


def read_only(monkeypatch, folder):
    """No file can be made in this folder, though its permissions allow it."""
    real = tempfile.TemporaryFile

    def refuse(*args, dir, **options):
        if str(dir) == folder:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(*args, dir=dir, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)


def test_a_read_only_folder_is_refused(run_command, here, monkeypatch):
    read_only(monkeypatch, ".")
    code, err = run_command(*PRUNE, "--out", "small")
    assert code == 1
    assert "--out small: . is not writable (Read-only file system)." in err


def test_only_the_output_folder_needs_to_be_writable(run_command, here, monkeypatch):
    """An existing folder needs no writable parent; a read-only one is refused before the work."""
    read_only(monkeypatch, ".")
    code, err = run_command(*PRUNE, "--out", "empty")
    assert code == 0, err
    read_only(monkeypatch, "full")
    monkeypatch.setattr(
        "deadhead.saved.prune.load",
        lambda *_, **__: pytest.fail("loaded before the folder was checked"),
    )
    code, err = run_command(*PRUNE, "--out", "full", "--force")
    assert code == 1
    assert "--out full: full is not writable (Read-only" in err


def test_a_device_in_a_read_only_folder_is_accepted(monkeypatch):
    read_only(monkeypatch, str(Path(os.devnull).parent))
    check_file(Path(os.devnull), "--out", "ranking.json", force=False)


def test_an_empty_folder_is_accepted_and_a_full_one_with_force(run_command, here):
    for words in (("empty",), ("full", "--force")):
        code, err = run_command(*PRUNE, "--out", *words)
        assert code == 0, err
        assert (here / words[0] / "config.json").is_file()
    assert (here / "full" / "note.txt").read_text() == "mine"


def exported(folder, *, onnx, **_):
    onnx.write_bytes(b"graph")
    graph = Graph("m.onnx", torch.nn.Identity(), {}, {}, ("logits",))
    return Exported(onnx, (graph,), 0.0, 1)


def test_a_file_is_overwritten_with_force(run_command, here, monkeypatch):
    monkeypatch.setattr("deadhead.exports.onnx.export.exported", exported)
    assert run_command("export", "model", "--onnx", "old.json", "--force")[0] == 0
    assert (here / "old.json").read_bytes() == b"graph"


def test_no_tokenizer_is_invented_for_a_model_without_one(run_command, here):
    assert run_command(*PRUNE, "--out", "small")[0] == 0
    assert not [*(here / "small").glob("tokenizer*")]


def test_a_folder_with_the_draft_of_a_killed_command_is_empty(run_command, bert, tmp_path):
    (tmp_path / "small" / ".draft-killed").mkdir(parents=True)
    prune = ("prune", bert, "--remove-heads", "encoder.0.0", "--out", tmp_path / "small")
    assert run_command(*prune)[0] == 0
    assert not [path for path in (tmp_path / "small").iterdir() if path.name[0] == "."]
