"""For all tests: no network, one thread, and no clock."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is first imported
os.environ["OMP_NUM_THREADS"] = "1"

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no bug
settings.load_profile("untimed")


def pytest_runtest_setup() -> None:
    import sys

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
