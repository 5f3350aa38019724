"""The script that attacks deadhead, with a few tries each: it counts tries and losses."""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from deadhead.errors import DeadheadError

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def test_a_few_tries_of_what_is_quick(tmp_path: Path) -> None:
    out = tmp_path / "table.md"
    command = [
        sys.executable,
        "tools/attack.py",
        "--only",
        "readers,edits,writers,together,power",
        "--share",
        "0.02",
        "--out",
        str(out),
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    rows = [
        line.split("|")[2:5]
        for line in out.read_text().splitlines()
        if line.startswith("| ") and "attack" not in line
    ]
    counts = [tuple(int(cell) for cell in row) for row in rows]
    assert counts == [(15, 15, 0), (4, 4, 0), (4, 4, 0), (1, 1, 0), (4, 4, 0)]


def test_an_unknown_attack_is_refused() -> None:
    result = subprocess.run(
        [sys.executable, "tools/attack.py", "--only", "fuzz,nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "unknown attack 'nothing'; known are kills, readers" in result.stderr


def test_a_loss_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import attack
    import attack_files

    monkeypatch.setattr(attack_files, "status", lambda folder: [][0])  # a reader with a bug
    count = attack.Count("readers", 5, tmp_path, float("inf"))
    attack_files.readers(count)
    assert (count.tries, count.survived, len(count.problems)) == (5, 4, 1)
    assert "IndexError" in count.problems[0]


def test_a_hostile_folder_that_breaks_a_reader_is_counted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import attack
    import attack_models

    def reader(name: str) -> None:
        """It reads the whole folder, and then breaks, leaks, reads, refuses and never ends."""
        folder = Path(name)
        if folder != attack_models.MODELS / "encoder":
            ways = [[].pop, lambda: leak(folder), lambda: None, refuse, lambda: time.sleep(60)]
            ways[count.tries]()

    def leak(folder: Path) -> None:
        (folder.parent / "out").mkdir()
        (folder.parent / "out" / "key").write_bytes(attack_models.SECRET)

    def refuse() -> None:
        raise DeadheadError("no.")

    monkeypatch.setattr(attack_models, "_readers", lambda out: {"reader": reader})
    monkeypatch.setattr(attack_models, "SECONDS", 5)
    count = attack.Count("models", 5, tmp_path, float("inf"))
    attack_models.folders(count)
    assert (count.tries, count.survived) == (5, 2)
    assert [problem.partition(": ")[2] for problem in count.problems] == [
        "IndexError('pop from empty list')",
        "the copy has a file from outside of the folder",
        "took longer than 5 s",
    ]


def test_an_edited_number_that_is_shown_is_counted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "studies"))
    import attack
    import attack_files

    monkeypatch.setattr(attack_files, "status", lambda folder: Namespace(damaged=()))
    count = attack.Count("edits", 4, tmp_path, float("inf"))
    attack_files.edits(count)
    assert (count.tries, count.survived) == (4, 3)
    assert count.problems[0].startswith("status: the edited record is not named")
