"""A GPU shared by workers: MPS is started for them, told to them, and ended. A script stands in for NVIDIA's daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deadhead.cli._progress import log_lines
from deadhead.studies.execution import gpu_sharing as sharing

SCRIPT = """#!/bin/sh
where="${CUDA_MPS_PIPE_DIRECTORY:-$USUAL}"
if [ "$1" = -d ]; then echo "start $where" >> "$DAEMON_LOG"; touch "$where/alive"; exit 0; fi
read word; echo "$word $where" >> "$DAEMON_LOG"
[ -e "$where/alive" ] || exit 1
[ "$word" != quit ] || rm "$where/alive"
"""


@pytest.fixture
def daemon_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands that the daemon got."""
    program = tmp_path / "bin" / sharing.DAEMON
    program.parent.mkdir()
    program.write_text(SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DAEMON_LOG", str(tmp_path / "daemon.log"))
    monkeypatch.delenv(sharing.PLACES[0], raising=False)
    monkeypatch.setenv("USUAL", str(tmp_path / "usual"))
    (tmp_path / "usual").mkdir()
    monkeypatch.setattr(sharing.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / "daemon.log"


def test_it_is_started_for_the_workers_and_ended(daemon_log: Path) -> None:
    with sharing.sharing(3, 1) as how:
        place = os.environ[sharing.PLACES[0]]
        assert how == "with MPS"
        assert os.stat(place).st_mode & 0o077 == 0
    usual = daemon_log.parent / "usual"
    assert daemon_log.read_text().splitlines() == [
        f"get_server_list {usual}",
        f"get_server_list {place}",
        f"start {place}",
        f"quit {place}",
    ]
    assert sharing.PLACES[0] not in os.environ


def test_one_left_behind_is_used_again(daemon_log: Path) -> None:
    home = daemon_log.parent / f"deadhead-mps-{os.getuid()}"
    home.mkdir()
    (home / "alive").touch()
    with sharing.sharing(2, 1) as how:
        assert how == "with MPS"
    assert "start" not in daemon_log.read_text()
    assert not (home / "alive").exists()


@pytest.mark.parametrize(("workers", "cards"), [(1, 1), (2, 2), (4, 0)])
def test_workers_that_share_nothing_need_none(daemon_log: Path, workers: int, cards: int) -> None:
    with sharing.sharing(workers, cards) as how:
        assert how == "each alone"
    assert not daemon_log.exists()


def test_that_of_the_machine_is_left_alone(daemon_log: Path) -> None:
    alive = daemon_log.parent / "usual" / "alive"
    alive.touch()
    with sharing.sharing(2, 1) as how:
        assert how == "with the MPS that runs already"
    assert alive.exists()


def test_without_it_they_take_turns(daemon_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with sharing.sharing(2, 1) as how:
        assert how == "in turns, without MPS"
    assert sharing.PLACES[0] not in os.environ


def test_of_two_that_begin_at_once_one_starts_it(daemon_log: Path) -> None:
    """The other finds it taken: it is refused, though nobody answered a moment before."""
    program = daemon_log.parent / "bin" / sharing.DAEMON
    program.write_text(
        SCRIPT.replace('touch "$where/alive"; exit 0', 'touch "$where/alive"; exit 1')
    )
    with sharing.sharing(2, 1) as how:
        assert how == "with MPS"


def test_it_ends_with_the_last_study_that_uses_it(
    daemon_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was told to quit would take no new workers of the other."""
    alive = daemon_log.parent / f"deadhead-mps-{os.getuid()}" / "alive"
    with sharing.sharing(2, 1):
        monkeypatch.delenv(sharing.PLACES[0])  # another process
        with sharing.sharing(2, 1) as how:
            assert how == "with MPS"
        assert alive.exists()
    assert not alive.exists()
    assert daemon_log.read_text().count("start") == daemon_log.read_text().count("quit") == 1


def test_it_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    watch = log_lines()
    facts = {
        "before": {"done": 0, "failed": 0},
        "done": 0,
        "failed": 0,
        "total": 9,
        "running": {},
        "workers": 4,
        "sharing": "",
    }
    for how in ("", sharing.ALONE, "with MPS", "with MPS"):
        watch({**facts, "sharing": how})
    assert capsys.readouterr().err.count("4 workers share a GPU with MPS.") == 1
