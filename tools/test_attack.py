"""The script that attacks deadhead, with a few tries each: it counts what it does, and would count a loss."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def test_a_few_tries_of_what_is_quick(tmp_path: Path) -> None:
    out = tmp_path / "table.md"
    command = [
        sys.executable,
        "tools/attack.py",
        "--only",
        "readers,together,power",
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
    assert counts == [(12, 12, 0), (1, 1, 0), (4, 4, 0)]


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
    count = attack.Count("readers", 6, tmp_path, float("inf"))
    attack_files.readers(count)
    assert (count.tries, count.survived, len(count.problems)) == (6, 5, 1)
    assert "IndexError" in count.problems[0]
