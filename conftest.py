"""For all tests: no network, one thread, and no clock."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is first imported
os.environ["OMP_NUM_THREADS"] = "1"
# without bytecode each run compiles all tests again, and each process that a test starts deadhead
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import pytest
from hypothesis import settings

sys.dont_write_bytecode = False
# no test cuts the power, and those of syncing count the calls; fails for a closed file as it does
os.fsync = os.fstat

settings.register_profile("untimed", deadline=None)  # a busy machine is no bug
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests live to the end: the search for garbage leaves them out, which is faster."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup():
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        if not torch.accelerator.is_available():  # deadhead.numerics.seed says why
            torch.manual_seed = torch.default_generator.manual_seed
        # a test that computes in bfloat16 by itself may have switched oneDNN off, on a CPU that cannot
        torch.backends.mkldnn.enabled = torch.backends.mkldnn.is_available()


@pytest.fixture
def switches(monkeypatch):
    """A CPU without bf16 on any CPU: a product of bfloat16 switches oneDNN off for the whole process. Gives how often it did."""
    import torch

    from deadhead.numerics import computes_half

    linear, count = torch.nn.functional.linear, [0]

    def switching(value: torch.Tensor, *rest) -> torch.Tensor:
        if value.dtype is torch.bfloat16 and torch.backends.mkldnn.enabled:
            torch.backends.mkldnn.enabled = False
            count[0] += 1
        return linear(value, *rest)

    monkeypatch.setattr(torch.nn.functional, "linear", switching)
    computes_half.cache_clear()
    yield lambda: count[0]
    computes_half.cache_clear()


def pytest_terminal_summary(terminalreporter):
    """Name the tests that were skipped without a browser, and what to type to run them."""
    skipped = [
        str(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    reasons = [reason.removeprefix("Skipped: ") for reason in skipped if "no browser" in reason]
    if reasons:
        terminalreporter.write_line(f"left out: {len(reasons)} tests of the page; {reasons[0]}")
