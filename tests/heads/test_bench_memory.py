"""The memory that `bench` tells is that of each model by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tiny_models import build

from deadhead.heads import save
from deadhead.heads.verify.bench import _peak_of_process

MIB = 2**20


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="where a process is told its own peak in /proc"
)
def test_the_peak_is_not_that_of_the_process_that_asks(tmp_path: Path) -> None:
    save(build("bert").float(), tmp_path)
    ballast = torch.ones(
        1200 * MIB // 4
    )  # what this process has held shows in getrusage of every process it starts
    peak = _peak_of_process(str(tmp_path), 1, 8, "cpu", "", "auto")
    assert ballast.sum() > 0
    assert peak is not None
    assert 50 * MIB < peak < 1000 * MIB
