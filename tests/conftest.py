"""For all tests: no network, one thread, and no clock."""

from __future__ import annotations

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is first imported
os.environ["OMP_NUM_THREADS"] = "1"

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no bug
settings.load_profile("untimed")


def pytest_runtest_setup() -> None:
    import sys

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tests that were left out for want of a browser are told, with what to type to get them."""
    skipped = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    reasons = [reason.removeprefix("Skipped: ") for reason in skipped if "no browser" in reason]
    if reasons:
        terminalreporter.write_line(f"left out: {len(reasons)} tests of the page; {reasons[0]}")
